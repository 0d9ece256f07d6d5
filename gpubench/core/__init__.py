"""The interface of algorithms, and the foundations of all other packages."""

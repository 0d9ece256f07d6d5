"""The contracts of algorithms, and what every other package builds on."""

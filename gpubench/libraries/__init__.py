"""Adapters for searches and sorts of third-party libraries, one per file."""

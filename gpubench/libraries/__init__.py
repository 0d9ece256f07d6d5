"""Searches and sorts of third-party libraries: one adapter per file."""

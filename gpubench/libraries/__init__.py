"""Adapters for third-party libraries: searches, sorts, sparse products and mesh collision."""

"""Compare GPU neighbour-search and sorting algorithms: checked, timed, and explained."""

__version__ = "0.1.0"

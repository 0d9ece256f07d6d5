"""Simulation steps as algorithms, so that a study can measure them."""

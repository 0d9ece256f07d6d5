"""Particles in cells: the kind of input that several problems share."""

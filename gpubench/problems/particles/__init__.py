"""Particles in cells: a kind of input shared by several problems."""

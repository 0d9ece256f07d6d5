"""Particles in cells: a kind of input that several problems take; no problem of its own."""

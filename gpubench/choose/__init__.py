"""Recommend an algorithm by interpolating stored measurements; needs no device."""

"""Recommend an algorithm by interpolating measurements, without any other model or a device."""

"""Measured data: records, results files, pooling and ranking."""

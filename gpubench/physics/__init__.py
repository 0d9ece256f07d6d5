"""The physics of the workloads on the host: models, right answers, and what is measured of them.

Imports no device: what a kernel computed is checked here by NumPy and SciPy in float64.
"""

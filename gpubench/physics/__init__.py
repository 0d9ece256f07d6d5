"""The physics of the workloads on the host: models, reference solutions, observables.

Imports no device: NumPy and SciPy check the kernels' results here in float64.
"""

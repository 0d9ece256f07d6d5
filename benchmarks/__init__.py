"""What asv runs and plots: every algorithm and workload, measured by the package's own engine.

`algorithms.py` and `workloads.py` make their classes from the registry: nothing is listed here.
See docs/asv.md.
"""

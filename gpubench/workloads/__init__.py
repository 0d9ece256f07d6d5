"""Workloads: whole simulation steps over any algorithm; workload.py defines the interface."""

"""Whole simulation steps over any algorithm; see workload.py for their interface."""

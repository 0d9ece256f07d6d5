"""Whole simulation steps over any algorithm; see workload.py for what they have in common."""

"""Checks of the physics of workloads, against published figures and theory.

A check is a function that runs simulations of a given size and returns measurements. It is listed
in the `CHECKS` of its module, with a size for a few seconds on a CPU and one for a GPU.
`runner.FAMILIES` names the checks of each family of workloads.
"""

"""Run a workload: step it, time it, keep checkpoints, write pictures and trajectories of it."""

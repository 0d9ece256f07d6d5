"""Run a workload: step and time it; write checkpoints, pictures and trajectories."""

"""Accounts of simulations, made up."""

from __future__ import annotations


def account(**changes):
    times = [0.0, 4.0, 8.0, 16.0]
    return {
        "workload": "dpd-separation", "particles": 4096, "algorithm": "counting-sort",
        "form": "order", "seed": 3, "skin": 0.3, "time_step": 0.04, "steps": 400, "time": 16.0,
        "given": {"dimensions": 2}, "device_name": "Some <GPU>", "device": "cuda:0",
        "machine": "some-gpu", "commit": "0123456789abcdef", "ended": "2000-01-02T03:04:05Z",
        "particle_steps_per_s": {"median": 2.5e9, "low": 2.4e9, "high": 2.6e9},
        "blocks": [{"steps": 1, "elapsed_ms": 90.0}, {"steps": 8, "elapsed_ms": 80.0}],
        "observations": [
            {"step": int(t / 0.04), "time": t, "domain_size": 2 + t**0.5, "mixing_height": t,
             "pressure": None}
            for t in times
        ],
    } | changes  # fmt: skip

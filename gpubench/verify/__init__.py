"""Tests of algorithms against oracles, on the inputs of the conformance suites."""

"""Benchmarks: the standard protocol, sweeps, history, and conditions for a gate."""

"""Real runs of the same thing, and of the same thing slowed down: what the statistics of benchmarks are proved on."""

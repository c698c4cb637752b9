"""What benchmarks mean: figures with their uncertainty, differences, curves, conditions. Pure functions."""

"""Fuzzing of the readers of model files: one harness, a target for each format."""

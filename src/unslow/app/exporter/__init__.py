"""This machine's diagnosis as metrics: a thread looks, and whoever asks gets what is known, with its age."""

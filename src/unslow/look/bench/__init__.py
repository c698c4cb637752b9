"""Measurements: what is timed, and what the machine did meanwhile."""

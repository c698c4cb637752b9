"""Wiring of everything that is asked of a Prometheus."""

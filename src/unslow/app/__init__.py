"""Wiring only: what is looked at, what thinks about it, what is shown."""

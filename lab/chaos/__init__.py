"""A proxy before a real server that does to requests what bad days do, and keeps its own account of it.

It listens on loopback only. What it does to which request is drawn from a seed, so that a run can be repeated.
"""

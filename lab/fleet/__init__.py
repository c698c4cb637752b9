"""A fleet to judge: real and replayed targets behind a real Prometheus, and generated fleets of any size.

Every series is a `Line` with a rule for its value in time, so that one description serves a scrape and a block.
"""

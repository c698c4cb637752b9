"""The local page of `unslow serve`: routes, refusals, live runs."""

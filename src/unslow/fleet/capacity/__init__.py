"""How many users a fleet can serve at a goal: measured where that load was there, else simulated."""

"""Whether a model fits: what it asks of each device, and what would."""

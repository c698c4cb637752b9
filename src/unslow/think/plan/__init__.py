"""What to change: the settings that serve a goal best, found by search, and what each costs."""

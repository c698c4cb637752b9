"""What a change of the machine looks like to whoever is asked for it."""

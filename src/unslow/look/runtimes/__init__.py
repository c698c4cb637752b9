"""One file for each runtime: how it is found, how its settings are read, how it spells each knob."""

"""How much memory a model needs, by the runtime that loads it."""

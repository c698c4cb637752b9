"""The live screen, the watching behind it, and `unslow.watch` for a Transformers model."""

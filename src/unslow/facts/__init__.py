"""The vocabulary: what can be known of a machine, a model, a runtime and a run. Frozen, and it does no I/O."""

"""The settings of Transformers that serve a goal best: all combinations that `generate` takes are priced."""

"""The settings of vLLM that serve a goal best: every combination is looked at, most of them without being priced."""

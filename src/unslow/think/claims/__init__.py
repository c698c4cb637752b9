"""Whether a claim that somebody makes of a model on a device is possible: the text read, and held to arithmetic."""

"""Whether a claim about a model on a device is possible: the text is parsed and checked by arithmetic."""

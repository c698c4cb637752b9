"""The speed that hardware should give: what a token asks, what it costs, how far off that may be."""

"""The verbs as tools for coding agents, through the Model Context Protocol."""

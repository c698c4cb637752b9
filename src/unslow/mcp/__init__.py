"""The commands as tools for coding agents, through the Model Context Protocol."""

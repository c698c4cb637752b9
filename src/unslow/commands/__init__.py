"""One file or package for each command: its request, and `run`. The name is the command, the docstring its help.

From the struct come the command line, the Python function, the tool for agents and the parameters of the web API.
"""

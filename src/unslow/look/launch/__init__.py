"""Servers that this program starts itself, from the command line that starts them anyway, and ends again.

What is set when a server starts can be varied only by starting one. A server that was started elsewhere is never
touched: these run beside it, on loopback, on a port of their own, for as long as they are measured.
"""

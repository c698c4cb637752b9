"""The page: `unslow serve` and `unslow report`.

A view of a diagnosis is built, drawn and served; it carries no numbers of its own.
"""

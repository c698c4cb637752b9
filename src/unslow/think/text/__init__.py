"""Reads what people write in prose: which hardware, which model, how fast, what changed, what they saw.

Nothing here decides anything. A word becomes a fact of origin `told`, with its line; the causes weigh it.
"""

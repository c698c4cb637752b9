"""Watching servers as they work for others: questions that are no work, and files. No prompt is sent."""

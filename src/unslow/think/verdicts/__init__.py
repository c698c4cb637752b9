"""Verdicts with a page of their own; a verdict is never among the findings."""

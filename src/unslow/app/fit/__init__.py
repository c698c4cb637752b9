"""Answers `unslow fit`: finds the model and the memory, and puts the question."""

from unslow.app.fit.answer import answer

__all__ = ["answer"]

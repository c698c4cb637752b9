"""Answers `unslow fit`: finds the model and the memory, and puts the question."""

from unslow.app.fit.answer import answer
from unslow.app.fit.request import Request

__all__ = ["Request", "answer"]

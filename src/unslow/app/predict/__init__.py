"""Answers `unslow predict`: the speed to expect of one case, or of every row of a table."""

from unslow.app.predict.answer import answer
from unslow.app.predict.expected import Expected, expected

__all__ = ["Expected", "answer", "expected"]

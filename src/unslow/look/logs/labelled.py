"""Values that stand behind a label, each with its place: the form of most of what macOS prints."""

import re
from collections.abc import Iterable
from typing import Any

from unslow.facts.values import NOT_LOOKED, Fact
from unslow.look.logs.amounts import amount, word
from unslow.look.logs.numbered import Numbered


class Labelled:
    """The last value of each label; `pattern` has the label and the value as its two groups."""

    def __init__(self, lines: Iterable[Numbered], pattern: re.Pattern[str]) -> None:
        found = ((line.source, pattern.search(line.text)) for line in lines)
        self.rows = {match[1]: (match[2].strip(), source) for source, match in found if match}

    def text(self, *labels: str) -> str:
        """The value of the first of these labels that is there; empty where none is."""
        return next((self.rows[label][0] for label in labels if label in self.rows), "")

    def source(self, *labels: str) -> str:
        """Where that value stands."""
        return next((self.rows[label][1] for label in labels if label in self.rows), "")

    def word(self, *labels: str) -> Fact[Any]:
        """The value as a fact; "nobody looked" where no label is there."""
        return word(self.text(*labels), self.source(*labels)) if self.source(*labels) else NOT_LOOKED

    def amount(self, label: str, unit: str) -> Fact[Any]:
        """The value as a number in SI; "nobody looked" where the label is not there."""
        return amount(self.text(label), unit, self.source(label)) if label in self.rows else NOT_LOOKED

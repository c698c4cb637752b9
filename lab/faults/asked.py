"""How large the question is that a report promises a first token of: the lab then asks one of the same size."""

import statistics
from pathlib import Path
from typing import NamedTuple

from unslow.commands.diagnose.target import read_stored
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case


class Asked(NamedTuple):
    """Tokens of a conversation that were there before, and those that are new."""

    kept: int
    new: int


USUAL = Asked(512, 16)


def asked_in(folder: Path, diagnosed: list[str]) -> Asked:
    """What the diagnosis in that folder asked: a turn where that is what was slow, else a question of its own."""
    try:
        cases = list(read_stored(str(folder)).cases())
    except UserError:
        return USUAL
    return asked_of(cases[0], diagnosed) if cases else USUAL


def asked_of(case: Case, diagnosed: list[str]) -> Asked:
    """The same of a case; the usual where it was not asked anything."""
    turns, answers = case.run.turns.value_or(()), case.run.completions.value_or(())
    if len(turns) > 1 and "prompt_reprocessed" in diagnosed:
        return Asked(turns[-1].prompt_tokens - turns[-1].new_tokens, max(1, turns[-1].new_tokens))
    computed = [max(1, c.prompt_tokens - c.cached_tokens) for c in answers if c.prompt_tokens]
    return Asked(0, round(statistics.median(computed))) if computed else USUAL

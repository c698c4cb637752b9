"""Candidates as command lines of the very program that is started; what it has no words for is not started."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from unslow.app.commands import commands_for
from unslow.facts.knob import Change, Knob
from unslow.facts.model import Model
from unslow.facts.snapshot import Case
from unslow.facts.values import reported
from unslow.look.system import System
from unslow.think.tune.candidate import Candidate, as_settings

_RUNTIME = "llama.cpp"


class Line(NamedTuple):
    """The words of a command line, and why it is not to be used."""

    words: tuple[str, ...]
    why_not: str = ""

    @property
    def text(self) -> str:
        """For a shell."""
        return shlex.join(self.words)


def line_of(system: System, candidate: Candidate, path: str, server: str) -> Line:
    """How a candidate is started."""
    model = Model(path=reported(path, "given"))
    changes = [Change(knob, value) for knob, value in as_settings(candidate.settings).items()]
    said = commands_for(changes, Case(model=model), system=system, program=server, name=_RUNTIME)
    left = [(change, why) for change, why in said.left_out if change.knob is not Knob.QUANT]
    why_not = f"{left[0][0].knob.value}: {left[0][1]}" if left else ""
    return Line(said.argv or (server, "-m", path), why_not)


def lines_of(system: System, candidates: Sequence[Candidate], path: str, server: str) -> list[Line]:
    """The lines of all."""
    return [line_of(system, candidate, path, server) for candidate in candidates]

"""The versioned answer of `unslow tune`: these fields are a promise to whoever reads the JSON."""

from typing import Literal

import msgspec

from unslow.facts.verified import Sample, Work
from unslow.think.plan.report import ChangeShown, SpeedShown
from unslow.think.tune.candidate import Kind
from unslow.think.verify.report import IntervalShown

SCHEMA = "unslow.tune/1"
Verdict = Literal["faster", "default_is_best", "cannot_tell", "failed"]
"""faster: than llama.cpp's own choice, by more than noise. failed: nothing ran."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the answer."""


class TrialShown(Shown, frozen=True, kw_only=True):
    """One candidate and all that was measured of it."""

    name: str
    kind: Kind
    """default: llama.cpp's own choice. plan: what is recommended. option: of the front. neighbour: one step off."""
    settings: tuple[ChangeShown, ...]
    command: str
    rounds: int
    seconds: float
    """That its servers ran, starts included."""
    start_s: float | None = None
    """Until a server answered."""
    request_s: IntervalShown | None = None
    """From a request to the end of its answer, over rounds."""
    decode_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    over_default: IntervalShown | None = None
    """How many times faster than llama.cpp's own choice, over the rounds that both have."""
    predicted: SpeedShown | None = None
    measured_over_predicted: float | None = None
    """Of the time of a request: more than 1 is slower than predicted."""
    dropped: str = ""
    """Why it was not measured to the end; empty where it was."""
    dropped_in_round: int | None = None
    samples: tuple[Sample, ...] = ()


class TuneReport(Shown, frozen=True, kw_only=True):
    """The whole answer."""

    schema: str = SCHEMA
    unslow_version: str
    model: str
    machine: str = ""
    server: str = ""
    """The program that was started."""
    work: Work
    context: int
    verdict: Verdict
    because: str
    winner: int | None = None
    """The number of a trial, from 0."""
    plan: int | None = None
    """Which of the trials the plan recommends."""
    over_default: IntervalShown | None = None
    """How many times faster the winner is than llama.cpp's own choice, with an interval that is wider the more were
    tried; None where that is the winner."""
    over_plan: IntervalShown | None = None
    """The same against the plan."""
    command: str = ""
    """The line to use."""
    trials: tuple[TrialShown, ...] = ()
    """llama.cpp's own choice first."""
    budget_s: float
    spent_s: float
    rounds: int
    ended: str = ""
    """Why it ended."""
    interrupted: bool = False
    notes: tuple[str, ...] = ()

"""The versioned answer of `unslow plan`: these fields are a promise to whoever reads the JSON."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from unslow.facts.knob import Setting
from unslow.think.fit.report import MemoryShown
from unslow.think.physics.terms import Interval
from unslow.think.speed.report import RateShown, shown_rate

SCHEMA = "unslow.plan/1"
Aim = Literal["speed", "context", "quality"]  # What there shall be most of; the other two have floors
Verdict = Literal["better", "already_best", "impossible", "cannot_tell"]
"""better: there is something faster, longer or finer than what runs (or nothing runs yet). impossible: nothing fits."""


class GoalShown(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for, and the work that every plan is judged at."""

    aim: Aim
    context: int  # Tokens that one conversation must have room for
    prompt_tokens: int  # New tokens that a request brings
    kept_tokens: int  # Tokens that are in the cache already when it comes
    answer_tokens: int
    users: int  # Conversations at a time
    least_tokens_per_s: float | None = None  # The floor of speed where the aim is another
    worst_perplexity_increase: float | None = None
    """The floor of quality, against the model's full precision, as a share: 0.01 is one percent."""


class ChangeShown(msgspec.Struct, frozen=True, kw_only=True):
    """One setting and its value; `was` is what it is now, None where that is not known or not set."""

    knob: str
    value: Setting
    was: Setting = None
    why: str = ""


class SpeedShown(msgspec.Struct, frozen=True, kw_only=True):
    """What the work takes, by prediction."""

    decode_tokens_per_s: RateShown  # Of one conversation, in the middle of the answer
    prefill_tokens_per_s: RateShown
    request_s: RateShown  # From a request to the end of its answer
    together_tokens_per_s: float | None = None
    """Of all conversations that are answered at a time; None where that is one."""


class QualityShown(msgspec.Struct, frozen=True, kw_only=True):
    """What it costs in answers, by published measurements of models like it, or of the model itself."""

    perplexity_increase: float | None  # Against full precision, as a share; None where none was published
    kl_divergence: float | None = None
    words: str = ""
    sources: tuple[str, ...] = ()
    is_measured: bool = False  # Whether the cache was measured with this very model; `words` compares it with others'
    published_increase: float | None = None  # What others published of models like it, where it was


class OptionShown(msgspec.Struct, frozen=True, kw_only=True):
    """A whole set of settings: what to change, what that gives, and what it costs."""

    name: str  # A few words that identify it
    quant: str
    context: int  # Of one conversation
    changes: tuple[ChangeShown, ...]  # Against what runs now; where nothing runs, against the runtime's defaults
    settings: tuple[ChangeShown, ...] = ()
    """Every setting that decides it, changed or not: what a new start must be told."""
    speed: SpeedShown | None
    quality: QualityShown
    devices: tuple[MemoryShown, ...] = ()
    host: MemoryShown | None = None
    costs: tuple[str, ...] = ()  # What it gives up against what runs now, in words
    risk: str = ""
    speedup: float | None = None  # Of a request, against what runs now
    measured_tokens_per_s: float | None = None  # Of what runs now, as it was measured; None where not measured
    commands: tuple[str, ...] = ()  # Lines to type, each with the label of its place (facts.placed)


class RejectedShown(msgspec.Struct, frozen=True, kw_only=True):
    """Something that people try, and why it is not the recommendation."""

    what: str
    because: str


class SearchedShown(msgspec.Struct, frozen=True, kw_only=True):
    """How the search went: combinations in all, how many were priced, how many had their memory laid out exactly."""

    combinations: int
    priced: int
    laid_out: int
    exact: bool = True  # Whether nothing better can be among those that were not looked at


class PlanReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer."""

    schema: str = SCHEMA
    unslow_version: str
    model: str
    runtime: str
    machine: str
    of_running: bool = False
    """Whether it is for something that runs or was started: changes are against that. Otherwise `current` is what the
    runtime does by itself, and changes are against its defaults."""
    url: str = ""  # Where the server answers that it is for; empty where none runs, or where it has no address
    goal: GoalShown
    verdict: Verdict
    stands_for: str = ""  # The model that was named, where this one of the same shape was computed
    reason: str = ""  # Where there is no recommendation: why
    hint: str = ""
    current: OptionShown | None = None  # What runs now; None where nothing does
    recommended: int | None = None  # The number of an option, from 0
    options: tuple[OptionShown, ...] = ()  # The front: each is better than every other in something
    rejected: tuple[RejectedShown, ...] = ()
    searched: SearchedShown | None = None
    notes: tuple[str, ...] = ()


def shown_speed(decode: Interval, prefill: Interval, request_s: Interval, together: float | None) -> SpeedShown:
    """What one conversation gets, and all of them together in tokens per second; None where there is one."""
    return SpeedShown(
        decode_tokens_per_s=shown_rate(decode),
        prefill_tokens_per_s=shown_rate(prefill),
        request_s=shown_rate(request_s),
        together_tokens_per_s=together,
    )


def shown_settings(settings: Iterable[tuple[str, Setting]], was: Mapping[str, Setting]) -> tuple[ChangeShown, ...]:
    """Every setting with what it is now."""
    return tuple(ChangeShown(knob=knob, value=value, was=was.get(knob)) for knob, value in settings)


def changes_of(settings: Iterable[ChangeShown], why: Callable[[str], str]) -> tuple[ChangeShown, ...]:
    """Those that are other than now, each with the reason."""
    return tuple(msgspec.structs.replace(s, why=why(s.knob)) for s in settings if s.value != s.was)

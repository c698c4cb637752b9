"""The versioned answer of `unslow verify`: these fields are a promise to whoever reads the JSON."""

from typing import Literal

import msgspec

from unslow.facts.bench import Change
from unslow.think.speed.report import RateShown

SCHEMA = "unslow.verify/1"
Verdict = Literal["faster", "slower", "same", "cannot_tell", "answers_changed", "broken"]
"""answers_changed comes first: a speed-up that broke the model is none. broken: requests failed, and only after it."""
Way = Literal["in_turns", "one_after_the_other", "apart"]
"""in_turns: both ran. one_after_the_other: each was started for every round. apart: measured at different times."""
Kept = Literal["kept", "changed", "cannot_tell"]


class IntervalShown(msgspec.Struct, frozen=True, kw_only=True):
    """A figure with its 95 % confidence interval."""

    low: float
    mid: float
    high: float


class WorkShown(msgspec.Struct, frozen=True, kw_only=True):
    """The request that both were asked."""

    prompt_tokens: int  # New ones, which have to be read
    kept_tokens: int  # Those before them, which the cache has already
    answer_tokens: int


class FigureShown(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both, and whether they differ by more than noise."""

    metric: str  # `request_s`, `decode_tokens_per_s` or `prefill_tokens_per_s`
    before: IntervalShown
    after: IntervalShown
    speedup: IntervalShown
    """Of all figures more is faster, also of times. Paired by round, so its interval is not that of the two."""
    rounds: int
    verdict: Change
    because: str


class SideShown(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two."""

    what: str  # Its address, or the command line that started it
    runtime: str
    runtime_version: str
    model: str
    settings: dict[str, str]
    failures: tuple[str, ...] = ()
    taken_at: str = ""
    starts_s: tuple[float, ...] = ()  # How long each start took, where it was started for this
    failed_starts: tuple[str, ...] = ()  # Why it did not start, after it had started before


class ChangeShown(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that differs."""

    setting: str
    before: str
    after: str


class PredictedShown(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan said, and what came of it."""

    option: str
    decode_tokens_per_s: RateShown | None = None
    prefill_tokens_per_s: RateShown | None = None
    request_s: RateShown | None = None
    speedup: float | None = None  # Of a request
    measured_over_predicted: float | None = None  # Of that speed-up: more than 1 is better than the plan said
    because: str = ""


class PerplexityShown(msgspec.Struct, frozen=True, kw_only=True):
    """How well both expect the same text; the increase is a share, 0.01 is one percent."""

    places: int
    before: float
    after: float
    increase: IntervalShown
    allowed: float
    same_choice: float  # The share of the places at which both would choose the same token


class PublishedShown(msgspec.Struct, frozen=True, kw_only=True):
    """What others published about such a change of weights or cache; `unslow plan` counts with the same figures."""

    increase: float | None  # Of the perplexity, from before to after, as a share; None where none was published
    sources: tuple[str, ...] = ()
    agrees: bool | None = None  # With what was measured; None where that can't be told
    because: str = ""


class AnswersShown(msgspec.Struct, frozen=True, kw_only=True):
    """Whether it still answers as before."""

    verdict: Kept
    because: str
    wanted: bool = True  # Whether answers were to be compared at all
    questions: int = 0
    begin_alike: float | None = None  # The share of answers that begin with the same word as before
    begin_alike_before: float | None = None  # The same of the old server asked twice
    together: float | None = None  # The mean share of the words of an answer before it goes another way
    together_before: float | None = None
    garbage_before: int = 0
    garbage_after: int = 0  # Answers that are empty or repeat themselves without end
    perplexity: PerplexityShown | None = None
    published: PublishedShown | None = None  # Beside that perplexity, where weights or cache were changed


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer."""

    schema: str = SCHEMA
    unslow_version: str
    machine: str = ""
    way: Way
    work: WorkShown
    verdict: Verdict
    because: str
    figures: tuple[FigureShown, ...] = ()
    answers: AnswersShown
    before: SideShown
    after: SideShown
    changes: tuple[ChangeShown, ...] = ()
    predicted: PredictedShown | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    asked_s: float | None = None  # How long it was to take
    took_s: float | None = None  # How long it took, starts included

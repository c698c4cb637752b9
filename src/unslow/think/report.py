"""The one versioned result: these fields are a promise to whoever reads the JSON."""

from typing import Literal

import msgspec

SCHEMA = "unslow.report/1"
Scalar = str | int | float | bool
Per = Literal["token", "prompt_token", "request"]
Verdict = Literal["slow", "normal", "failed", "cannot_tell"]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that decides, what it was held against, and where it comes from."""

    fact: str
    value: Scalar
    reference: str | None
    origin: str
    source: str


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """An 80 % interval."""

    low: float
    mid: float
    high: float


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What physics expects: with these settings, and with every found cause cured."""

    as_configured: dict[str, Range] = {}
    achievable: dict[str, Range] = {}
    ceiling_tokens_per_s: float | None = None
    basis: Literal["calibrated", "catalog"] = "catalog"
    because: str = ""  # Why there is no prediction, where there is none


class BudgetPart(msgspec.Struct, frozen=True, kw_only=True):
    """A share of the measured time."""

    phase: str
    part: str
    seconds: float
    per: Per


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Time lost to a cause."""

    seconds: float
    per: Per
    depth_tokens: int | None = None
    """Where the loss was measured deep in the context: of a token there, which takes longer than the others."""


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """A knob to turn, spelled for the runtime at hand."""

    knob: str
    value: Scalar | None
    why: str
    commands: tuple[str, ...] = ()
    risk: str = ""
    predicted: dict[str, float] = {}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that is there."""

    cause: str
    title: str
    phase: str = ""
    confidence: float
    because: str
    evidence: tuple[Evidence, ...]
    explains: tuple[str, ...] = ()
    cost: Cost | None = None  # What curing it saves beside the findings before it: no second is counted twice
    speedup: float | None = None  # How many times as fast with this one alone cured
    fixes: tuple[Fix, ...] = ()


class RuledOut(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that is not there."""

    cause: str
    because: str


class Untold(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that could not be judged."""

    cause: str
    missing: str
    because: str
    how_to_get: str
    suspected: bool = False  # Whether something speaks for it; `because` then says what


class ContradictionShown(msgspec.Struct, frozen=True, kw_only=True):
    """Sources that can't all be right, each with what it says."""

    about: str
    says: tuple[str, ...]
    meaning: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A command whose output would settle what is open, ready to copy, and for which causes."""

    command: str
    why: str
    settles: tuple[str, ...] = ()


class ChecklistItem(msgspec.Struct, frozen=True, kw_only=True):
    """A question of the guides, answered."""

    item: str
    state: Literal["ok", "bad", "unknown"]
    because: str


class SubjectReport(msgspec.Struct, frozen=True, kw_only=True):
    """One runtime and model; `number` is its place among the subjects of the snapshot."""

    number: int = 0
    url: str = ""
    pid: int | None = None
    runtime: str  # Its name, with the version where that is known; `model` with the quant
    version: str = ""
    model: str
    quant: str = ""
    devices: tuple[str, ...]
    verdict: Verdict
    summary: str
    phase: str
    measured: dict[str, float]
    expected: Expectation
    budget: tuple[BudgetPart, ...] = ()
    findings: tuple[Finding, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    cannot_tell: tuple[Untold, ...] = ()
    checklist: tuple[ChecklistItem, ...] = ()
    contradictions: tuple[ContradictionShown, ...] = ()
    ask_next: tuple[Question, ...] = ()
    known: tuple[Evidence, ...] = ()  # What the text was understood to say, where a text was read
    notes: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The diagnosis of one snapshot."""

    schema: str = SCHEMA
    unslow_version: str
    machine: dict[str, Scalar]
    subjects: tuple[SubjectReport, ...]


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """One way by which a cause is found or ruled out, and the kind of evidence that it rests on."""

    kind: str
    looks_at: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, or the verdict "normal", as it is documented."""

    id: str
    title: str
    phase: str  # Where the time goes that it costs
    needs: tuple[str, ...] = ()  # The facts that decide it
    routes: tuple[PageRoute, ...] = ()  # The ways by which it is found or ruled out, in the order in which they decide
    explains: tuple[str, ...] = ()  # Causes that it accounts for where it is found
    text: str = ""  # Markdown

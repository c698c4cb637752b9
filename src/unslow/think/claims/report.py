"""The versioned answer of `unslow check`: these fields are a promise to whoever reads the JSON."""

from typing import Literal

import msgspec

SCHEMA = "unslow.check/1"
Verdict = Literal["possible", "unlikely", "impossible", "cannot_tell"]
"""possible: nothing contradicts it. unlikely: only just below a limit, or only with settings that nobody named.
impossible: it beats a limit, or it is not the number that the model or the device has."""
Kind = Literal[
    "speed", "prefill", "throughput", "ceiling", "size", "kv_cache", "fit", "layers", "bandwidth", "ratio", "parameters"
]
WORST_FIRST: tuple[Verdict, ...] = ("impossible", "unlikely", "cannot_tell", "possible")


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the answer."""


class Range(Shown, frozen=True, kw_only=True):
    """An 80 % interval."""

    low: float
    mid: float
    high: float


class Subject(Shown, frozen=True, kw_only=True, omit_defaults=True):
    """What was understood of a claim; empty where nothing was said."""

    model: str = ""
    quant: str = ""
    device: str = ""
    context: int = 0


class Judged(Shown, frozen=True, kw_only=True):
    """One claim with its verdict."""

    claim: str
    """The sentence that it stands in."""
    what: str
    """The part of it that is judged, such as `72 tok/s`."""
    kind: Kind
    verdict: Verdict
    because: str
    arithmetic: tuple[str, ...] = ()
    subject: Subject = Subject()
    ceiling_tokens_per_s: float | None = None
    expected_tokens_per_s: Range | None = None
    missing: tuple[str, ...] = ()
    """What has to be said for a verdict."""
    notes: tuple[str, ...] = ()
    """What was assumed."""


class CheckReport(Shown, frozen=True, kw_only=True):
    """All claims of a text."""

    schema: str = SCHEMA
    unslow_version: str
    verdict: Verdict
    """The worst of them."""
    claims: tuple[Judged, ...]


def worst(judged: tuple[Judged, ...]) -> Verdict:
    """The verdict that counts for all together."""
    return min((one.verdict for one in judged), key=WORST_FIRST.index, default="cannot_tell")

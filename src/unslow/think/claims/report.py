"""The versioned answer of `unslow check`, a promise to whoever reads the JSON; the verdict on a claim's readings."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from unslow.think.claims.sentence import SentenceReading
from unslow.think.report import Range

SCHEMA = "unslow.check/1"
Verdict = Literal["possible", "unlikely", "impossible", "cannot_tell"]
"""possible: nothing contradicts it. unlikely: only just below a limit, or only with unnamed settings.
impossible: it beats a limit, or it is not the number that the model or the device has."""
Kind = Literal[
    "speed", "prefill", "throughput", "ceiling", "size", "kv_cache", "fit", "layers", "bandwidth", "ratio", "parameters"
]
WORST_FIRST: tuple[Verdict, ...] = ("impossible", "unlikely", "cannot_tell", "possible")
_BEST_FIRST: tuple[Verdict, ...] = ("possible", "unlikely", "cannot_tell", "impossible")


class Subject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was understood of a claim; empty where nothing was said."""

    model: str = ""
    quant: str = ""
    device: str = ""
    context: int = 0


class JudgedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim with its verdict."""

    claim: str  # The sentence that it stands in
    what: str  # The part of it that is judged, such as `72 tok/s`
    kind: Kind
    verdict: Verdict
    because: str
    arithmetic: tuple[str, ...] = ()
    subject: Subject = Subject()
    ceiling_tokens_per_s: float | None = None
    expected_tokens_per_s: Range | None = None
    missing: tuple[str, ...] = ()  # What has to be said for a verdict
    notes: tuple[str, ...] = ()  # What was assumed


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """All claims of a text."""

    schema: str = SCHEMA
    unslow_version: str
    verdict: Verdict  # The worst of them
    claims: tuple[JudgedClaim, ...]


class Finding(NamedTuple):
    """What one reading gives."""

    verdict: Verdict
    because: str
    arithmetic: tuple[str, ...]
    subject: Subject = Subject()
    assumed: bool = False  # Whether the reading rests on something that the text does not say
    nearness: float = 0.0  # How near the claim comes to holding; the reading that is nearest is shown where none holds
    ceiling: float | None = None
    expected: Range | None = None
    notes: tuple[str, ...] = ()


def judged_claim(said: SentenceReading, what: str, kind: Kind, finding: Finding) -> JudgedClaim:
    """The finding as it is reported."""
    carried = (f"taken from an earlier sentence: {', '.join(said.carried)}",) if said.carried else ()
    return JudgedClaim(
        claim=said.original,
        what=what,
        kind=kind,
        verdict=finding.verdict,
        because=finding.because,
        arithmetic=finding.arithmetic,
        subject=finding.subject,
        ceiling_tokens_per_s=finding.ceiling if finding.ceiling != float("inf") else None,
        expected_tokens_per_s=finding.expected,
        notes=(*finding.notes, *carried),
    )


def best_finding(findings: Sequence[Finding]) -> Finding:
    """The most favourable; one that rests on something unsaid makes it unlikely at best."""
    # What is usual comes first in the list, and is shown where several are as good
    stated = [f for f in findings if not f.assumed] or findings[:1]
    first = min(stated, key=lambda f: _BEST_FIRST.index(f.verdict))
    if first.verdict != "impossible":
        return first
    other = next((f for f in findings if f.verdict in {"possible", "unlikely"}), None)
    if other:
        guess = other.subject.quant or other.subject.device
        because = (
            f"only in {guess} or smaller, which the claim does not name; in {first.subject.quant}, {first.because}"
        )
        return other._replace(verdict="unlikely", because=because)
    nearest = max(stated, key=lambda f: f.nearness)
    several = len({f.subject for f in stated}) > 1
    return nearest._replace(notes=(*nearest.notes, "the most favourable of several readings")) if several else nearest


def cannot_tell(
    said: SentenceReading, what: str, kind: Kind, missing: Sequence[str], lines: tuple[str, ...] = ()
) -> JudgedClaim:
    """Nothing to hold the claim against; what has to be said for that."""
    return JudgedClaim(
        claim=said.original,
        what=what,
        kind=kind,
        verdict="cannot_tell",
        because=f"it does not say {' or '.join(missing)}",
        arithmetic=lines,
        missing=tuple(missing),
    )


def worst(judged: tuple[JudgedClaim, ...]) -> Verdict:
    """The verdict that counts for all together."""
    return min((one.verdict for one in judged), key=WORST_FIRST.index, default="cannot_tell")

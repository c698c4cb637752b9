"""Claims of the share of its bandwidth that a device uses."""

from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.ceilings import Question, one_stream
from unslow.think.claims.phrases import any_of
from unslow.think.claims.places import places
from unslow.think.claims.readings import readings
from unslow.think.claims.report import Judged, Subject
from unslow.think.claims.said import Said
from unslow.think.claims.verdicts import Finding, best, judged

_EFFICIENCY = any_of(
    r"efficien\w+", "of (?:the |its |peak |theoretical |memory )*bandwidth", "bandwidth (?:use|utili[sz]ation)", "mbu"
)
_BEFORE, _AFTER = 30, 40
_NEAR = 0.12


def speaks_of_efficiency(said: Said, claim: Amount) -> bool:
    """Whether a percentage is the share of the bandwidth that a speed uses."""
    return bool(_EFFICIENCY.search(said.rest[max(0, claim.start - _BEFORE) : claim.end + _AFTER]))


def judge_efficiency(said: Said, claim: Amount) -> Judged:
    """A share of the bandwidth, against what the speed beside it comes to."""
    what = f"{w.share(claim.low)} of the bandwidth"
    if claim.low > 1:
        lines = (
            f"{w.share(claim.low)} is more than 100 %",
            "a byte that is read must come over the bus",
            "none comes twice",
        )
        return judged(
            said, what, "bandwidth", Finding("impossible", "nothing reads more than all of its bandwidth", lines)
        )
    findings = _findings(said, claim)
    if findings:
        return judged(said, what, "bandwidth", best(findings))
    return judged(said, what, "bandwidth", Finding("possible", "60 to 95 % are usual for large models", ()))


def _findings(said: Said, claim: Amount) -> list[Finding]:
    """One for each reading; none where the sentence has no speed, model or device to work it out from."""
    speed = next((a for a in said.amounts if a.kind == "speed"), None)
    model, device = said.model_at(claim.start), said.device_at(claim.start)
    if not (speed and model and device):
        return []
    found = [Question(r, place) for place in places(device) for r in readings(model, said.quant_at(claim.start))]
    return [_finding(question, claim, speed.low) for question in found if question.place.bytes_per_s]


def _finding(question: Question, claim: Amount, tokens_per_s: float) -> Finding:
    reading, place, each = question.reading, question.place, one_stream(question).read_bytes
    used_bytes, said = tokens_per_s * each, w.rate(tokens_per_s)
    used = used_bytes / place.bytes_per_s
    lines = (
        f"a token reads {w.gb(each)} of {reading.name}",
        f"{said} x {w.gb(each)} = {w.bandwidth(used_bytes)}, of {w.bandwidth(place.bytes_per_s)}",
        f"that is {w.share(used)} on {place.label}; claimed {w.share(claim.low)}",
    )
    right = claim.low - _NEAR <= used <= claim.high + _NEAR
    subject = Subject(model=reading.model, quant=reading.quant, device=place.label)
    because = f"the speed comes to {w.share(used)}"
    return Finding("possible" if right else "impossible", because, lines, subject, reading.assumed)

"""Claims of bandwidth: of a device, of a host's memory, of a kind of memory or a link."""

import re

from unslow.catalog.memory_kinds import MemoryKind, memory_kinds
from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.hosts import host_said
from unslow.think.claims.places import BOOST, places
from unslow.think.claims.report import Judged, Subject
from unslow.think.claims.said import Said
from unslow.think.claims.verdicts import Finding, best, cannot_tell, judged

_ROUNDED = 1.03
_MUCH_LESS = 0.75
_TIMES_FROM = 10
"""From here on a claim is so many times the truth, below a percentage of it."""
_BEFORE, _AFTER, _BESIDE = 60, 30, 40
"""Letters: how far from the number what it belongs to may stand."""


def judge_bandwidth(said: Said, claim: Amount) -> Judged:
    """So many bytes a second, of what stands nearest."""
    device, what = said.device_at(claim.start), w.bandwidth(claim.low)
    near = said.text[max(0, claim.start - _BEFORE) : claim.end + _AFTER]
    host = host_said(near)
    if host and (not device or abs(device.start - claim.start) > _BESIDE):
        how = "(8 bytes for each transfer and channel)"
        return judged(said, what, "bandwidth", _against(claim, host.label, host.bytes_per_s, how))
    if device:
        found = [_against(claim, place.label, place.bytes_per_s, "by its datasheet") for place in places(device)]
        return judged(said, what, "bandwidth", best(found))
    kind = next((k for k in memory_kinds() if any(re.search(rf"\b{word}\b", near) for word in k.words)), None)
    if not kind:
        return cannot_tell(said, what, "bandwidth", ["of which device or kind of memory"])
    return judged(said, what, "bandwidth", _of_kind(claim, kind))


def _against(claim: Amount, label: str, truth: float, how: str) -> Finding:
    subject = Subject(device=label)
    if not truth:
        return Finding("cannot_tell", f"the catalogue has no bandwidth of {label}", (), subject)
    part = claim.low / truth
    lines = (
        f"{label}: {w.bandwidth(truth)} {how}",
        f"claimed {w.bandwidth(claim.low)}",
        f"that is {w.share(part)} of it" if part < _TIMES_FROM else f"that is {w.digits(part)} times as much",
    )
    found = Finding("possible", f"it has {w.bandwidth(truth)}", lines, subject, nearness=truth)
    if part > BOOST * _ROUNDED:
        return found._replace(verdict="impossible")
    if claim.high < truth * _MUCH_LESS:
        because = f"it has {w.bandwidth(truth)}; so much less points at a fault, or at another device"
        return found._replace(verdict="unlikely", because=because)
    return found


def _of_kind(claim: Amount, kind: MemoryKind) -> Finding:
    lines = (
        f"{kind.name}: {w.bandwidth(kind.low_bytes_per_s)} to {w.bandwidth(kind.high_bytes_per_s)}",
        f"from {kind.source}",
        f"claimed {w.bandwidth(claim.low)}",
    )
    found = Finding("possible", f"within what {kind.name} gives", lines, Subject(device=kind.name))
    if claim.low > kind.high_bytes_per_s * BOOST:
        return found._replace(verdict="impossible", because=f"no product with {kind.name} has so much")
    if claim.high < kind.low_bytes_per_s * _MUCH_LESS:
        return found._replace(verdict="unlikely", because=f"products with {kind.name} have more")
    return found

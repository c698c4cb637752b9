"""Claims that a model fits, or does not, in a memory."""

import re
from typing import NamedTuple

from unslow.facts.units import GIB, MIB
from unslow.think.claims import wording as w
from unslow.think.claims.amounts import Amount
from unslow.think.claims.phrases import any_of
from unslow.think.claims.places import places
from unslow.think.claims.readings import Reading, readings
from unslow.think.claims.report import Judged, Subject
from unslow.think.claims.said import Said
from unslow.think.claims.verdicts import Finding, best, cannot_tell, judged

_FITS = any_of(
    "fits?", "fitting", "fully (?:on|in|offloaded|loaded|resident)", "entirely (?:on|in)", "completely (?:on|in)",
    "everything (?:on|in)", "whole model", r"all (?:the |of the |its |\d+ )?layers", "100 ?% (?:on (?:the )?)?gpu",
    "natively?", "avoids? (?:paging|spilling)", "is enough", r"comfortabl\w+", "sweet spot",
)  # fmt: skip
_DENIED = any_of(
    "(?:not|never|won't|can't|cannot|doesn't|don't|no longer|hardly)[^.;]{0,20} (?:fit|hold|load)", "spills?",
    "always page", "too (?:large|big|much)",
)  # fmt: skip
_RUNS = any_of("runs?", "running", "loads?", "works?")
_SEVERAL = re.compile(r"\b(two|dual|both|three|four|[2-4] ?x)\b")
_NUMBERS = {"two": 2, "dual": 2, "both": 2, "three": 3, "four": 4}
_BUFFERS_BYTES = 300 * MIB
_USUAL_CONTEXT = 4096
_SURELY = 0.97
_MOST_SPILLED = 4
"""Times the memory: what is larger does not run partly either."""


class Room(NamedTuple):
    """A memory, and what it is called."""

    label: str
    bytes: float


class Need(NamedTuple):
    """What a model asks of a memory."""

    weights: float
    cache: float
    least: float
    """Weights, and the cache of a context that is named."""

    @property
    def usual(self) -> float:
        """With a cache and with buffers."""
        return self.weights + self.cache + _BUFFERS_BYTES


def speaks_of_fitting(said: Said) -> bool:
    """Whether a sentence says that something fits, or that it does not."""
    return any(pattern.search(said.rest) for pattern in (_FITS, _DENIED, _RUNS))


def room_bytes(room: Amount) -> float:
    """A memory of 24 GB has 24 GiB, whatever a file of 24 GB has; of a range, the largest."""
    return room.high * (1.024**3 if room.unit == "gb" else 1.0)


def judge_fit(said: Said, amount: Amount | None) -> Judged:
    """A model against a memory of a size, or of a device."""
    at = amount.start if amount else len(said.text)
    model, room = said.model_at(at), _room(said, amount, at)
    if not model or not room.bytes:
        missing = ["which model (name or size, and quant)"] * (not model) + ["how much memory"] * (not room.bytes)
        return cannot_tell(said, "fits", "fit", missing)
    found = readings(model, said.quant_at(at))
    if _DENIED.search(said.rest):
        return judged(said, f"does not fit in {room.label}", "fit", _denied(found[0], room, said))
    return judged(said, f"fits in {room.label}", "fit", best([_fit(reading, room, said) for reading in found]))


def _room(said: Said, amount: Amount | None, at: int) -> Room:
    device = said.device_at(at)
    if device and (not amount or device.memory_bytes):
        largest = max(places(device), key=lambda place: place.capacity_bytes)
        return Room(device.label if device.is_class else largest.label, largest.capacity_bytes)
    if not amount:
        return Room("", 0.0)
    several = _SEVERAL.search(said.text)
    number = _NUMBERS.get(several[1], 0) or int(several[1][0]) if several else 1
    one = w.digits(room_bytes(amount) / GIB)
    return Room(f"{number} x {one} GB" if number > 1 else f"{one} GB", room_bytes(amount) * number)


def _need(reading: Reading, said: Said) -> Need:
    context = said.settings.context
    cache = reading.cache_bytes(context or _USUAL_CONTEXT, said.cache_type or "F16") or 0.0
    weights = reading.weights_bytes - reading.table_bytes
    return Need(weights, cache, weights + (cache if context else 0.0))


def _lines(reading: Reading, room: Room, said: Said) -> tuple[str, ...]:
    need = _need(reading, said)
    tokens = w.tokens(said.settings.context or _USUAL_CONTEXT)
    return (
        f"{reading.name}: {w.both(need.weights)} of weights on the device",
        f"KV cache of {tokens} tokens: {w.both(need.cache)}" if need.cache else "KV cache: not known for a size alone",
        f"together {w.gib(need.weights + need.cache)} and buffers, against {w.gib(room.bytes)}",
    )


def _found(reading: Reading, room: Room, said: Said) -> Finding:
    need = _need(reading, said)
    subject = Subject(model=reading.model, quant=reading.quant, device=room.label, context=said.settings.context)
    because = f"it leaves {w.gib(room.bytes - need.usual)} free"
    return Finding("possible", because, _lines(reading, room, said), subject, reading.assumed, room.bytes / need.least)


def _denied(reading: Reading, room: Room, said: Said) -> Finding:
    """That it does not fit is wrong only where it surely does."""
    need, found = _need(reading, said), _found(reading, room, said)
    if need.usual <= room.bytes * _SURELY:
        return found._replace(
            verdict="impossible", because=f"it does fit, and leaves {w.gib(room.bytes - need.usual)} free"
        )
    lacking = need.usual - room.bytes
    return found._replace(because=f"{w.gib(lacking)} too much" if lacking > 0 else "it leaves next to nothing free")


def _fit(reading: Reading, room: Room, said: Said) -> Finding:
    need, found = _need(reading, said), _found(reading, room, said)
    if need.least > room.bytes:
        return _too_large(reading, room, said, found)
    if need.usual > room.bytes:
        tokens = w.tokens(said.settings.context or _USUAL_CONTEXT)
        lacking = w.gib(need.usual - room.bytes)
        return found._replace(
            verdict="unlikely", because=f"so tight that {lacking} are missing for {tokens} tokens and buffers"
        )
    return found


def _too_large(reading: Reading, room: Room, said: Said, found: Finding) -> Finding:
    """Impossible, unless a cache in fewer bits would do, or unless it is only said to run."""
    need, context = _need(reading, said), said.settings.context
    smallest = need.weights + (reading.cache_bytes(context, "Q4_0") or 0.0) if context else need.least
    if not said.cache_type and smallest + _BUFFERS_BYTES <= room.bytes:
        return found._replace(verdict="unlikely", because="only with a KV cache in fewer bits, which nobody named")
    lacking = w.gib(need.least - room.bytes)
    if _RUNS.search(said.rest) and not _FITS.search(said.rest) and need.least <= room.bytes * _MOST_SPILLED:
        return found._replace(verdict="unlikely", because=f"{lacking} of it must stay on the host, which is slow")
    return found._replace(verdict="impossible", because=f"{lacking} too much, before any buffer")

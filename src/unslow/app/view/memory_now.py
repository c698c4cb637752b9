"""What lies in memory now: as the runtime says that it allocated it, else as it is laid out."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from unslow.app.view.memory_llama import LlamaAnswers, host_bar
from unslow.app.view.memory_price import PriceFactors, Speeds
from unslow.app.view.memory_words import overfull, summary, verdict_with
from unslow.facts.machine import Gpu
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.fit.report import MemoryShown
from unslow.think.fit.shown import Parts, shown_memory, verdict_of
from unslow.think.hardware import Room
from unslow.think.predict import predict, predict_prefill
from unslow.think.prediction import Prediction
from unslow.think.report import Range
from unslow.think.seen_hardware import given_back
from unslow.think.setup import SAME_MEMORY
from unslow.think.view.memory_bars import Asked as AskedOf
from unslow.think.view.memory_bars import bar_of
from unslow.think.view.report import MemoryBar, WhatIf

REPORTED = "from its own log: the buffers that it says it allocated"
_NUMBER = re.compile(r"(?<!\d)(\d+)$")
_MOST_SCALED = 4.0
"""A prediction that is so many times another is of something else than settings: then prices stay as they are."""


class Now(NamedTuple):
    """What is now, and how that is known."""

    what: WhatIf
    source: str = ""


def now_of(case: Case, gpus: Sequence[Gpu], answers: LlamaAnswers) -> Now:
    """What is there, with the speed that the report expects of it."""
    asked = answers.subject.now
    laid, runs = answers.answer(asked), case.runtime.state.value_or("loaded") != "failed"
    if not runs:
        return Now(laid)
    parts = reported_parts(case, len(gpus))
    if parts is None:
        whole = answers.laid_out(asked)
        return Now(_running(case, laid, answers, whole.devices, whole.host))
    bars, devices, host = _as_reported(case, gpus, answers, parts)
    reported = msgspec.structs.replace(laid, bars=bars)
    return Now(_running(case, reported, answers, devices, host), REPORTED)


def _running(
    case: Case, laid: WhatIf, answers: LlamaAnswers, devices: Sequence[MemoryShown], host: MemoryShown
) -> WhatIf:
    """The same as something that runs, whatever memory it should have: with the verdict and the speed of that."""
    decode = expected_range(predict(case)) or laid.decode_tokens_per_s
    prefill = expected_range(predict_prefill(case)) or laid.prefill_tokens_per_s
    layers = answers.layers(answers.subject.now)
    verdict = verdict_with(verdict_of(devices, host, layers_fit=False), layers, devices)
    if verdict == "does_not_fit":
        said = overfull(devices, host)
        return msgspec.structs.replace(
            laid, verdict=verdict, summary=said, decode_tokens_per_s=None, prefill_tokens_per_s=None
        )
    said = summary(verdict, devices, host, layers, decode)
    return msgspec.structs.replace(
        laid, verdict=verdict, summary=said, decode_tokens_per_s=decode, prefill_tokens_per_s=prefill
    )


def expected_of(case: Case, price: Speeds | None) -> PriceFactors:
    """What the report expects of what runs, of answers and of prompts, as multiples of their prices."""
    if price is None:
        return PriceFactors()
    decode = _factors(expected_range(predict(case)), price.decode.mid)
    return PriceFactors(price.group, decode, _factors(expected_range(predict_prefill(case)), price.prefill.mid))


def _factors(expected: Range | None, price: float) -> Range | None:
    if expected is None or not price or not 1 / _MOST_SCALED <= expected.mid / price <= _MOST_SCALED:
        return None
    return Range(low=expected.low / price, mid=expected.mid / price, high=expected.high / price)


def expected_range(found: Prediction | Unknown) -> Range | None:
    """Tokens per second; None where nothing can be predicted."""
    if isinstance(found, Unknown):
        return None
    low, mid, high = found.tokens_per_s
    return Range(low=low, mid=mid, high=high)


def reported_parts(case: Case, gpus: int) -> list[Parts] | None:
    """What lies on each GPU and at the end with the host; None where not all kinds of buffers were told."""
    buffers = case.runtime.buffers
    if not isinstance(buffers, Known):
        return None
    kinds = {buffer.kind for buffer in buffers.value}
    names = sorted({buffer.device for buffer in buffers.value if buffer.on_gpu}, key=_number)
    if not {"model", "compute"} <= kinds or not kinds & {"kv", "state"} or len(names) > gpus:
        return None
    if len(names) not in (0, gpus):
        return None
    groups = [[b for b in buffers.value if b.on_gpu and b.device == name] for name in names] or [
        [] for _ in range(gpus)
    ]
    return [*map(_parts, groups), _parts([b for b in buffers.value if not b.on_gpu])]


def _number(device: str) -> tuple[int, str]:
    match = _NUMBER.search(device)
    return (int(match[1][:6]) if match else 0, device)


def _parts(buffers: Sequence[Buffer]) -> Parts:
    def together(*kinds: str) -> int:
        return sum(int(buffer.bytes) for buffer in buffers if buffer.kind in kinds)

    return Parts(together("model"), together("kv", "state"), together("compute", "output"))


def _as_reported(
    case: Case, gpus: Sequence[Gpu], answers: LlamaAnswers, parts: list[Parts]
) -> tuple[tuple[MemoryBar, ...], list[MemoryShown], MemoryShown]:
    """The bars, and what is asked of each device and of the host."""
    subject, hardware = answers.subject, answers.subject.hardware
    *own, of_host = parts
    shared = hardware.is_unified
    bars, devices = [], []
    for n, (room, part, held) in enumerate(zip(hardware.rooms, own, given_back(case, gpus), strict=True)):
        beside = max(0, int(held) - sum(part)) if sum(part) and room.context_bytes else 0
        both = Parts(*map(sum, zip(part, of_host, strict=True))) if shared and not n else part
        had, kept = _as_it_runs(room, part, beside)
        asked = AskedOf(both, kept, 0, sum(of_host) if shared and not n else 0)
        bars.append(bar_of(had, asked, subject.strangers[n]))
        devices.append(shown_memory(room.name, part, had, kept, margin=int((had, kept) != (room, beside))))
    left = _same_memory(hardware.rooms[0], own[0]) if shared else hardware.host_room
    host = shown_memory(left.name if left else "host", of_host, left)
    return (*bars, *(() if shared else (host_bar(hardware.host_room, of_host),))), devices, host


def _as_it_runs(room: Room, part: Parts, beside: int) -> tuple[Room, int]:
    """The room, and what the runtime holds beside its buffers, with no more kept than what runs can have left."""
    short = shown_memory(room.name, part, room, beside).lacking_bytes
    if not 0 < short <= room.reserve_bytes + beside:
        return room, beside
    taken = min(short, beside)
    return room._replace(reserve_bytes=room.reserve_bytes - (short - taken)), beside - taken


def _same_memory(room: Room, own: Parts) -> Room:
    """What a GPU leaves of a memory that is the host's too."""
    return Room(SAME_MEMORY, room.capacity_bytes, others_bytes=room.others_bytes + sum(own))

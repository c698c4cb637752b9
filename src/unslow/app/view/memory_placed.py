"""How many layers lie on GPUs where no log tells: by what the driver counts, as told, or as many as fit."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from unslow.app.view.memory_llama import LlamaAnswers, Subject
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError
from unslow.think.adapt.placement import read_placement_or_none
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.vram import margin_bytes, own_bytes_on, own_is_counted, own_lent_bytes, runtime_sees_gpu
from unslow.think.seen_hardware import given_back

_UNTOLD = "nothing tells how many layers are on the GPU"


class Placed(NamedTuple):
    """So many layers, the output counted as one, and why so many."""

    layers: int
    note: str


def placed_unseen(case: Case, gpus: Sequence[Gpu], answers: LlamaAnswers) -> Placed | None:
    """Where layers should lie that nobody counted; None where they were counted, or where nothing came to lie."""
    if not gpus or _is_counted(case):
        return None
    share, everything = _share_told(case), answers.subject.everything
    if share is not None:
        layers = round(share * everything)
        return Placed(layers, f"the server says that {share:.0%} of the model is on the GPU: about {layers} layers")
    told = case.runtime.gpu_layers_set
    if isinstance(told, Known) and told.value >= 0:
        return Placed(min(told.value, everything), f"{_UNTOLD}; it was told {told.value}")
    if case.runtime.state.value_or("loaded") == "failed":
        return None
    return _by_bytes(case, gpus, answers) or (None if _is_known_otherwise(case) else _that_fit(case, gpus, answers))


def _share_told(case: Case) -> float | None:
    """The share of the model that the server itself says is in GPU memory, as Ollama does."""
    runtime = case.runtime
    size, held = runtime.size_bytes.value_or(0), runtime.size_vram_bytes
    if isinstance(runtime.vram_share, Known):
        return min(1.0, runtime.vram_share.value)
    return min(1.0, held.value / size) if size and isinstance(held, Known) else None


def _by_bytes(case: Case, gpus: Sequence[Gpu], answers: LlamaAnswers) -> Placed | None:
    """By what it holds; None where nobody tells that, or where bytes are no number of layers."""
    held = _held_bytes(case, gpus)
    if case.model.experts.value_or(0) > 1 or case.runtime.tensor_overrides.value_or([]):  # parts may lie apart
        note = f"{_UNTOLD}: what the driver counts as the server's is taken for whole ones"
        seen = held is not None and _is_known_otherwise(case)
        return Placed(answers.subject.now.gpu_layers, note) if seen else None
    if held is not None:
        layers = _layers_of(answers, held)
        return Placed(layers, f"{_UNTOLD}; what the driver counts as the server's comes to {layers}")
    unnamed = 0 if _is_known_otherwise(case) else sum(unnamed_bytes(case, gpus, answers.subject))
    if not unnamed:
        return None
    layers = _layers_of(answers, unnamed)
    return Placed(layers, f"{_UNTOLD}; the memory in use that nobody is named for comes to {layers}")


def _that_fit(case: Case, gpus: Sequence[Gpu], answers: LlamaAnswers) -> Placed:
    """As many as have room in what others leave; what has no name is taken for its own."""
    subject, margin = answers.subject, margin_bytes(case) / len(gpus)
    own = unnamed_bytes(case, gpus, subject)
    pairs = zip(subject.hardware.rooms, own, strict=True)
    rooms = tuple(room._replace(others_bytes=room.others_bytes - size) for room, size in pairs)
    free = LlamaAnswers(subject.with_rooms(rooms))
    layers = _most(subject.everything, lambda n: _fits(free, n, margin))
    return Placed(layers, f"{_UNTOLD}; {layers} would fit")


def with_its_own(case: Case, gpus: Sequence[Gpu], answers: LlamaAnswers) -> Subject:
    """The subject with what it holds itself not counted among others, where the driver does not name it.

    In a container, and with most drivers but NVIDIA's, nobody tells whose the memory is.
    """
    subject, unnamed = answers.subject, unnamed_bytes(case, gpus, answers.subject)
    if not any(unnamed):
        return subject
    devices = answers.laid_out(subject.now).devices
    rooms = tuple(
        room._replace(others_bytes=room.others_bytes - min(size, shown.total_bytes + room.context_bytes))
        if shown.total_bytes
        else room
        for room, shown, size in zip(subject.hardware.rooms, devices, unnamed, strict=True)
    )
    return subject.with_rooms(rooms)


def unnamed_bytes(case: Case, gpus: Sequence[Gpu], subject: Subject) -> list[int]:
    """What is in use of each GPU and has no name, where something runs there that has none either; else nothing."""
    runs = case.runtime.state.value_or("loaded") != "failed" and runtime_sees_gpu(case) is not False
    if not runs or any(given_back(case, gpus)) or any(room.unified for room in subject.hardware.rooms):
        return [0] * len(subject.hardware.rooms)
    named = [sum(stranger.bytes or 0 for stranger in others) for others in subject.strangers]
    return [max(0, room.others_bytes - size) for room, size in zip(subject.hardware.rooms, named, strict=True)]


def _layers_of(answers: LlamaAnswers, held: float) -> int:
    """The layers that so many bytes come nearest to."""
    taken = cache(lambda layers: _taken(answers, layers))
    return _most(answers.subject.everything, lambda layers: (taken(layers) + taken(layers - 1)) / 2 <= held)


def _is_counted(case: Case) -> bool:
    return isinstance(case.runtime.gpu_layers, Known) or isinstance(case.runtime.buffers, Known)


def _is_known_otherwise(case: Case) -> bool:
    """Whether the kind of engine, or what it holds, tells where its weights lie."""
    try:
        return read_placement_or_none(case, read_shape(case)) is not None
    except MissingFactError:
        return False


def _held_bytes(case: Case, gpus: Sequence[Gpu]) -> float | None:
    """What the driver counts as its own, with what it lends it of the host's memory; None where it does not list it."""
    counted = [own_bytes_on(case, gpu) for gpu in gpus]
    if not own_is_counted(case) or not any(counted):
        return None
    return sum(size or 0.0 for size in counted) + own_lent_bytes(case)


def _most(everything: int, holds: Callable[[int], bool]) -> int:
    """The largest number of layers of which it holds, as of all that are fewer; 0 where it does of none."""
    low, high = 0, everything
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _taken(answers: LlamaAnswers, layers: int) -> float:
    """What so many layers take of all GPUs, with what the runtime holds there before any buffer."""
    subject = answers.subject
    laid = answers.laid_out(subject.now._replace(gpu_layers=layers))
    pairs = zip(laid.devices, subject.hardware.rooms, strict=True)
    return float(sum(shown.total_bytes + room.context_bytes for shown, room in pairs if shown.total_bytes))


def _fits(answers: LlamaAnswers, layers: int, margin: float) -> bool:
    """Whether every GPU has room for its share of so many layers, and for what a runtime's own fit leaves free."""
    laid = answers.laid_out(answers.subject.now._replace(gpu_layers=layers))
    return all(shown.fits is not False and (shown.free_bytes or 0) >= margin for shown in laid.devices)

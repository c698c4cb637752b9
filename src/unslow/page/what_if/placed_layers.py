"""How many layers lie on GPUs where nothing counts them: by what the server was told, by bytes, or by what fits."""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache

from unslow.facts.values import Known
from unslow.page.what_if.gguf import GgufAnswers, Subject
from unslow.think.case.group import if_known
from unslow.think.case.view import CaseView
from unslow.think.plan.running import given_back

_UNTOLD = "the number of GPU layers is not reported"


def assumed_gpu_layers(case: CaseView, answers: GgufAnswers) -> tuple[int, str] | None:
    """How many layers should be on GPUs where they are not counted, the output as one, and why so many.

    None where they were counted, or where nothing came to lie.
    """
    runtime, everything = case.runtime, answers.subject.layer_total
    counted = isinstance(runtime.placement.gpu_layers, Known) or isinstance(runtime.memory.buffers, Known)
    if counted or not answers.subject.gpus:
        return None
    size, held = runtime.memory.size_bytes.value_or(0), runtime.memory.size_vram_bytes
    share = runtime.memory.vram_share.value_or(held.value / size if size and isinstance(held, Known) else None)
    if share is not None:  # that the server itself says is in GPU memory, as Ollama does
        share = min(1.0, share)
        layers = round(share * everything)
        return layers, f"the server reports {share:.0%} of the model on the GPU: about {layers} layers"
    told = runtime.placement.gpu_layers_set
    if isinstance(told, Known) and told.value >= 0:
        return min(told.value, everything), f"{_UNTOLD}; its setting is {told.value}"
    if case.runtime.state.value_or("loaded") == "failed":
        return None
    return _layers_by_vram(case, answers) or (None if _placement_is_known(case) else _layers_that_fit(case, answers))


def _layers_by_vram(case: CaseView, answers: GgufAnswers) -> tuple[int, str] | None:
    """None if its VRAM is unknown or does not count in layers."""
    counted = [case.vram.own_bytes_on(gpu) for gpu in answers.subject.gpus]
    is_listed = case.vram.own_is_counted and any(counted)
    held = sum(size or 0.0 for size in counted) + case.vram.own_lent_bytes if is_listed else None
    overridden = bool(case.runtime.placement.tensor_overrides.value_or([]))
    if case.model.experts.value_or(0) > 1 or overridden:  # parts may lie apart
        note = f"{_UNTOLD}: the server's VRAM is assumed to hold whole layers"
        seen = held is not None and _placement_is_known(case)
        return (answers.subject.now.gpu_layers, note) if seen else None
    if held is not None:
        layers = _layers_of(answers, held)
        return layers, f"{_UNTOLD}; the VRAM that it holds matches {layers}"
    unnamed = 0 if _placement_is_known(case) else sum(unnamed_bytes(case, answers.subject))
    if not unnamed:
        return None
    layers = _layers_of(answers, unnamed)
    return layers, f"{_UNTOLD}; the VRAM in use without a named owner matches {layers}"


def _layers_of(answers: GgufAnswers, held: float) -> int:
    """The number of layers whose size is nearest."""
    subject = answers.subject

    @cache
    def taken_bytes(layers: int) -> float:
        """Of all GPUs, with what the runtime holds there before any buffer."""
        laid = answers.layout(subject.now._replace(gpu_layers=layers))
        pairs = zip(laid.devices, subject.hardware.rooms, strict=True)
        return float(sum(shown.total_bytes + room.context_bytes for shown, room in pairs if shown.total_bytes))

    return _largest(subject.layer_total, lambda layers: (taken_bytes(layers) + taken_bytes(layers - 1)) / 2 <= held)


def _layers_that_fit(case: CaseView, answers: GgufAnswers) -> tuple[int, str]:
    """Memory without a named owner is assumed to be its own."""
    subject, own = answers.subject, unnamed_bytes(case, answers.subject)
    margin = case.vram.margin_bytes / len(subject.gpus)
    pairs = zip(subject.hardware.rooms, own, strict=True)
    rooms = tuple(room._replace(others_bytes=room.others_bytes - size) for room, size in pairs)
    free = GgufAnswers(subject.with_rooms(rooms))

    def fits(layers: int) -> bool:
        laid = free.layout(subject.now._replace(gpu_layers=layers))
        return all(shown.fits is not False and (shown.free_bytes or 0) >= margin for shown in laid.devices)

    layers = _largest(subject.layer_total, fits)
    return layers, f"{_UNTOLD}; {layers} would fit"


def _largest(layer_total: int, holds: Callable[[int], bool]) -> int:
    """The largest number for which it holds; 0 if it never does."""
    return bisect_left(range(1, layer_total + 1), x=True, key=lambda layers: not holds(layers))


def _placement_is_known(case: CaseView) -> bool:
    return if_known(lambda: case.placement.read(case.memory.shape)) is not None


def without_own_vram(case: CaseView, answers: GgufAnswers) -> Subject:
    """The subject with what it holds itself not counted among others, where the driver does not name it.

    In a container, and with most drivers but NVIDIA's, the owner of the memory is not reported.
    """
    subject, unnamed = answers.subject, unnamed_bytes(case, answers.subject)
    if not any(unnamed):
        return subject
    devices = answers.layout(subject.now).devices
    rooms = []
    for room, shown, size in zip(subject.hardware.rooms, devices, unnamed, strict=True):
        own = min(size, shown.total_bytes + room.context_bytes) if shown.total_bytes else 0
        rooms.append(room._replace(others_bytes=room.others_bytes - own))
    return subject.with_rooms(tuple(rooms))


def unnamed_bytes(case: CaseView, subject: Subject) -> list[int]:
    """What is in use of each GPU and has no name, where something runs there that has none either; else nothing."""
    runs = case.runtime.state.value_or("loaded") != "failed" and case.gpus.visible_to_runtime is not False
    if not runs or any(given_back(case, subject.gpus)) or any(room.unified for room in subject.hardware.rooms):
        return [0] * len(subject.hardware.rooms)
    named = [sum(program.bytes or 0 for program in others) for others in subject.others]
    return [max(0, room.others_bytes - size) for room, size in zip(subject.hardware.rooms, named, strict=True)]

"""How many layers lie on GPUs where nothing counts them: by what the server was told, by bytes, or by what fits."""

from bisect import bisect_left
from collections.abc import Callable
from functools import cache

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError
from unslow.page.what_if.gguf import GgufAnswers, Subject
from unslow.think.case.demand import read_shape
from unslow.think.case.placement import read_placement_or_none
from unslow.think.case.vram import margin_bytes, own_bytes_on, own_is_counted, own_lent_bytes, runtime_sees_gpu
from unslow.think.plan.running import given_back

_UNTOLD = "nothing tells how many layers are on the GPU"


def placed_unseen(case: Case, answers: GgufAnswers) -> tuple[int, str] | None:
    """How many layers that nobody counted should be on GPUs, the output counted as one, and why so many.

    None where they were counted, or where nothing came to lie.
    """
    runtime, everything = case.runtime, answers.subject.everything
    if not answers.subject.gpus or isinstance(runtime.gpu_layers, Known) or isinstance(runtime.buffers, Known):
        return None
    size, held = runtime.size_bytes.value_or(0), runtime.size_vram_bytes
    share = runtime.vram_share.value_or(held.value / size if size and isinstance(held, Known) else None)
    if share is not None:  # that the server itself says is in GPU memory, as Ollama does
        share = min(1.0, share)
        layers = round(share * everything)
        return layers, f"the server says that {share:.0%} of the model is on the GPU: about {layers} layers"
    told = runtime.gpu_layers_set
    if isinstance(told, Known) and told.value >= 0:
        return min(told.value, everything), f"{_UNTOLD}; it was told {told.value}"
    if case.runtime.state.value_or("loaded") == "failed":
        return None
    return _by_bytes(case, answers) or (None if _is_known_otherwise(case) else _that_fit(case, answers))


def _by_bytes(case: Case, answers: GgufAnswers) -> tuple[int, str] | None:
    """By what it holds; None where nobody tells that, or where bytes are no number of layers."""
    counted = [own_bytes_on(case, gpu) for gpu in answers.subject.gpus]
    is_listed = own_is_counted(case) and any(counted)
    held = sum(size or 0.0 for size in counted) + own_lent_bytes(case) if is_listed else None
    if case.model.experts.value_or(0) > 1 or case.runtime.tensor_overrides.value_or([]):  # parts may lie apart
        note = f"{_UNTOLD}: what the driver counts as the server's is taken for whole ones"
        seen = held is not None and _is_known_otherwise(case)
        return (answers.subject.now.gpu_layers, note) if seen else None
    if held is not None:
        layers = _layers_of(answers, held)
        return layers, f"{_UNTOLD}; what the driver counts as the server's comes to {layers}"
    unnamed = 0 if _is_known_otherwise(case) else sum(unnamed_bytes(case, answers.subject))
    if not unnamed:
        return None
    layers = _layers_of(answers, unnamed)
    return layers, f"{_UNTOLD}; the memory in use that nobody is named for comes to {layers}"


def _layers_of(answers: GgufAnswers, held: float) -> int:
    """The layers that so many bytes come nearest to."""
    subject = answers.subject

    @cache
    def taken(layers: int) -> float:
        """Of all GPUs, with what the runtime holds there before any buffer."""
        laid = answers.laid_out(subject.now._replace(gpu_layers=layers))
        pairs = zip(laid.devices, subject.hardware.rooms, strict=True)
        return float(sum(shown.total_bytes + room.context_bytes for shown, room in pairs if shown.total_bytes))

    return _most(subject.everything, lambda layers: (taken(layers) + taken(layers - 1)) / 2 <= held)


def _that_fit(case: Case, answers: GgufAnswers) -> tuple[int, str]:
    """As many as have room in what others leave; what has no name is taken for its own."""
    subject, own = answers.subject, unnamed_bytes(case, answers.subject)
    margin = margin_bytes(case) / len(subject.gpus)
    pairs = zip(subject.hardware.rooms, own, strict=True)
    rooms = tuple(room._replace(others_bytes=room.others_bytes - size) for room, size in pairs)
    free = GgufAnswers(subject.with_rooms(rooms))

    def fits(layers: int) -> bool:
        laid = free.laid_out(subject.now._replace(gpu_layers=layers))
        return all(shown.fits is not False and (shown.free_bytes or 0) >= margin for shown in laid.devices)

    layers = _most(subject.everything, fits)
    return layers, f"{_UNTOLD}; {layers} would fit"


def _most(everything: int, holds: Callable[[int], bool]) -> int:
    """The largest number of layers of which it holds, as of all that are fewer; 0 where it does of none."""
    return bisect_left(range(1, everything + 1), x=True, key=lambda layers: not holds(layers))


def _is_known_otherwise(case: Case) -> bool:
    """Whether the kind of engine, or what it holds, tells where its weights lie."""
    try:
        return read_placement_or_none(case, read_shape(case)) is not None
    except MissingFactError:
        return False


def with_its_own(case: Case, answers: GgufAnswers) -> Subject:
    """The subject with what it holds itself not counted among others, where the driver does not name it.

    In a container, and with most drivers but NVIDIA's, nobody tells whose the memory is.
    """
    subject, unnamed = answers.subject, unnamed_bytes(case, answers.subject)
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


def unnamed_bytes(case: Case, subject: Subject) -> list[int]:
    """What is in use of each GPU and has no name, where something runs there that has none either; else nothing."""
    runs = case.runtime.state.value_or("loaded") != "failed" and runtime_sees_gpu(case) is not False
    if not runs or any(given_back(case, subject.gpus)) or any(room.unified for room in subject.hardware.rooms):
        return [0] * len(subject.hardware.rooms)
    named = [sum(stranger.bytes or 0 for stranger in others) for others in subject.strangers]
    return [max(0, room.others_bytes - size) for room, size in zip(subject.hardware.rooms, named, strict=True)]

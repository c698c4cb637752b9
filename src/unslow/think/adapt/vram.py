"""The GPU memory of a case: what there is, who holds it, and what the runtime had."""

from unslow.facts.gpu_lists import computing
from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB, MIB
from unslow.facts.values import Known
from unslow.think.adapt.gpu_match import candidates, gpus_named, set_aside
from unslow.think.adapt.own_process import has_own_name, is_own, may_be_own, outruns_the_host, own_pid_is_listed
from unslow.think.adapt.remembered import once, remembered
from unslow.think.physics.placement import COMPUTE_BUFFER_BYTES, FIT_MARGIN_BYTES

NOBODYS_BYTES = 512 * MIB
"""GPU memory that belongs to no listed process on a healthy machine: the driver and the display."""

BARE_CONTEXT_BYTES = 600 * MIB
"""A process holds so much on a GPU that it only asked for its memory: 480 to 590 MiB on the recorded machines."""
_WHOLE_SHARE = 0.6
_WHOLE_BYTES = 1.5 * GIB
"""Weights on the host that are more than a token table: this share of the model, or where that is unknown, so much."""


def is_gpu(device: SeenDevice) -> bool:
    """Whether a device that the runtime lists is a GPU."""
    return device.name.upper() != "CPU" and device.library.lower() != "cpu"


def seen_gpus(case: Case) -> list[SeenDevice]:
    """The GPUs that the runtime lists."""
    return [d for d in case.runtime.devices.value_or([]) if is_gpu(d)]


@once
def gpus_of(case: Case) -> tuple[Gpu, ...]:
    """The GPUs of the machine that a runtime takes by itself; none where nobody could look."""
    return computing(case.machine.gpus.value_or(()))


def buffers_of(case: Case, kind: str, *, on_gpu: bool) -> list[Buffer]:
    """The buffers of one kind on one side."""
    return [b for b in case.runtime.buffers.value_or([]) if b.kind == kind and b.on_gpu is on_gpu]


def compute_bytes(case: Case) -> float:
    """The compute buffer on the GPU."""
    failure = case.runtime.allocation_failure.value_or(None)
    if failure and failure.what == "compute_buffer":
        return failure.asked_bytes.value_or(COMPUTE_BUFFER_BYTES)
    return sum(b.bytes for b in buffers_of(case, "compute", on_gpu=True)) or COMPUTE_BUFFER_BYTES


def gpu_places(case: Case) -> list[tuple[int, Gpu]]:
    """The same GPUs, each with its place in `machine.gpus`, as a path to one of its facts needs it."""
    counted = gpus_of(case)
    return [(place, gpu) for place, gpu in enumerate(case.machine.gpus.value_or(())) if gpu in counted]


def gpus_used(case: Case) -> tuple[Gpu, ...]:
    """The GPUs that the runtime computes on: by its own devices and process, else those that settings leave to it."""
    return remembered(case, "GPUs used", lambda: _gpus_used(case))


def _gpus_used(case: Case) -> tuple[Gpu, ...]:
    gpus, devices = gpus_of(case), computing_devices(case)
    if len(gpus) < 2:  # noqa: PLR2004 (several)
        return gpus
    held = _gpus_worked_on(case, gpus)
    matching = [candidates(device, gpus) for device in devices]
    possible = [gpu for alike in matching for gpu in alike]
    one_each = len(held) == len(devices) and all(gpu in possible for gpu in held)
    if held and (not possible or (one_each and any(len(alike) > 1 for alike in matching))):
        return held
    return gpus_named(case, devices, seen_gpus(case), gpus) or set_aside(case, gpus)


def _gpus_worked_on(case: Case, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that list the runtime, less those where it has but a context, if it has more elsewhere."""
    held = [(gpu, sum(p.vram_bytes.value_or(0) for p in own)) for gpu in gpus if (own := _own_on(case, gpu))]
    more = tuple(gpu for gpu, size in held if size > BARE_CONTEXT_BYTES)
    return more or tuple(gpu for gpu, _ in held)


def computing_devices(case: Case) -> list[SeenDevice]:
    """The devices that hold the model, else the one that the runtime says it uses, else all GPUs that it lists."""
    seen = seen_gpus(case)
    named = {device.name: device for device in seen}
    holding = {b.device: named.get(b.device, SeenDevice(name=b.device)) for b in buffers_of(case, "model", on_gpu=True)}
    used = case.runtime.device_used.value_or("").partition(" ")[0]
    return list(holding.values()) or [d for d in seen if used and d.name == used] or seen


def _processes(case: Case) -> list[GpuProcess]:
    return [p for g in gpus_used(case) for p in g.processes.value_or([])]


def _own_on(case: Case, gpu: Gpu) -> list[GpuProcess]:
    return [p for p in gpu.processes.value_or([]) if _is_own(case, p)]


def _is_own(case: Case, process: GpuProcess) -> bool:
    return is_own(case, process, on_gpu=_says_that_it_uses_one(case))


def own_is_known(case: Case) -> bool:
    """Whether the runtime's own process can be told from strangers; after a failed load there is none."""
    if case.runtime.state.value_or("") == "failed" or own_pid_is_listed(case):
        return True
    processes = _processes(case)
    if any(_is_own(case, p) for p in processes):
        return True
    return isinstance(case.runtime.pid, Known) and not any(_is_doubtful(case, p) for p in processes)


def _is_doubtful(case: Case, process: GpuProcess) -> bool:
    """Whether a process may well be the runtime under another number: it has its name, or none."""
    if own_pid_is_listed(case) or _is_own(case, process):
        return False
    return not isinstance(process.name, Known) or has_own_name(case, process)


def strangers(case: Case) -> list[GpuProcess]:
    """Processes that hold memory on the runtime's GPUs and are not the runtime, the largest first."""
    loaded, named = case.runtime.state.value_or("") != "failed", isinstance(case.runtime.pid, Known)
    others = (
        p
        for p in _processes(case)
        if not _is_own(case, p) and not (loaded and (named or not isinstance(p.name, Known)) and _is_doubtful(case, p))
    )
    return sorted(others, key=lambda p: -p.vram_bytes.value_or(0))


def gpus_held(case: Case) -> tuple[Gpu, ...]:
    """The GPUs that list the runtime's own process; none where no list is known or it is on none of them."""
    return _gpus_worked_on(case, gpus_of(case))


def own_vram_bytes(case: Case) -> float | None:
    """What the runtime's process holds by the driver's count; None where it is not listed or not counted."""
    own = [p for g in gpus_of(case) for p in _own_on(case, g)]
    held = [p.vram_bytes.value for p in own if isinstance(p.vram_bytes, Known)]
    return float(sum(held)) if held else None


def own_bytes_on(case: Case, gpu: Gpu) -> float | None:
    """The same on one GPU."""
    held = [p.vram_bytes.value for p in _own_on(case, gpu) if isinstance(p.vram_bytes, Known)]
    return float(sum(held)) if held else None


def own_lent_bytes(case: Case) -> float:
    """Memory of the system that the driver lends to the runtime's process as if it were a GPU's own, as Windows counts.

    Nothing on GPUs that have no memory of their own: there it is where everything lies.
    """
    cards = [gpu for gpu in gpus_of(case) if gpu.kind.value_or("") != "integrated"]
    return float(sum(p.shared_bytes.value_or(0) for gpu in cards for p in _own_on(case, gpu)))


def own_is_counted(case: Case) -> bool:
    """Whether that is all: of every GPU that it uses the list is known, and of each of its processes the size."""
    gpus = gpus_used(case)
    sizes = [p.vram_bytes for gpu in gpus for p in _own_on(case, gpu)]
    return all(isinstance(gpu.processes, Known) for gpu in gpus) and all(isinstance(size, Known) for size in sizes)


def failed_on_gpu(case: Case) -> bool:
    """Whether the allocation that ended the load was one on a GPU."""
    failure = case.runtime.allocation_failure.value_or(None)
    return failure is not None and not failure.device.startswith(("CPU", "CUDA_Host", "ROCm_Host"))


def available_vram_bytes(case: Case) -> float:
    """What the runtime had before it loaded: as it saw it, else free now and its own."""
    seen = [d for d in computing_devices(case) if isinstance(d.free_bytes, Known)]
    if seen:
        return sum(d.free_bytes.need() for d in seen)
    if isinstance(case.runtime.available_bytes, Known):
        return case.runtime.available_bytes.value
    counted = own_vram_bytes(case)
    own = sum(b.bytes for b in case.runtime.buffers.value_or([]) if b.on_gpu) if counted is None else counted
    return sum(g.vram_free_bytes.need() for g in gpus_used(case)) + own


def free_vram_bytes(case: Case) -> float:
    """What the GPUs have free now, else all that they have."""
    return sum(g.vram_free_bytes.value_or(g.vram_total_bytes.value_or(0)) for g in gpus_used(case))


def margin_bytes(case: Case) -> float:
    """What the runtime's fit leaves free, on all of its GPUs together."""
    return case.runtime.fit_margin_bytes.value_or(FIT_MARGIN_BYTES) * max(1, len(gpus_used(case)))


def runtime_sees_gpu(case: Case) -> bool | None:
    """Whether the runtime has a GPU to compute on; None where nothing tells."""
    return remembered(case, "sees a GPU", lambda: _sees_gpu(case))


def _sees_gpu(case: Case) -> bool | None:
    runtime = case.runtime
    if own_vram_bytes(case) is not None or _says_that_it_uses_one(case):
        return True
    if isinstance(runtime.gpu_refused, Known) or isinstance(runtime.devices, Known):
        return False
    if isinstance(runtime.gpu_layers, Known):
        return None  # no layer is there: for want of a backend, or of room
    return False if whole_on_host(case) or _holds_nothing(case) else None


def _says_that_it_uses_one(case: Case) -> bool:
    return remembered(case, "says that it uses a GPU", lambda: _tells_of_its_gpu(case))


def _tells_of_its_gpu(case: Case) -> bool:
    runtime = case.runtime
    if any(b.on_gpu for b in runtime.buffers.value_or([])) or _counts_layers(case) or failed_on_gpu(case):
        return True
    if runtime.vram_share.value_or(0) > 0 or runtime.size_vram_bytes.value_or(0) > 0:
        return True
    return bool(seen_gpus(case))


def _counts_layers(case: Case) -> bool:
    """Whether there are layers on a GPU, or none of them by a program that counts them only where it has a GPU."""
    runtime = case.runtime
    if runtime.gpu_layers.value_or(0) > 0:
        return True
    if isinstance(runtime.gpu_refused, Known) or not isinstance(runtime.gpu_layers, Known):
        return False
    ollama = "ollama" in runtime.name.value_or("").lower()  # it counts them without one too, if it saw none
    return not ollama or isinstance(runtime.available_bytes, Known)


def whole_on_host(case: Case) -> bool:
    """Whether the weights lie on the host: a paste may show only the token table's line, which proves nothing."""
    on_host = sum(b.bytes for b in buffers_of(case, "model", on_gpu=False))
    weights = case.model.weights_bytes.value_or(0)
    return on_host >= (_WHOLE_SHARE * weights if weights else _WHOLE_BYTES)


def whole_on_gpu(case: Case) -> bool:
    """Whether all of the model is on GPUs, by the runtime's own share of it."""
    return case.runtime.vram_share.value_or(0.0) == 1


def _holds_nothing(case: Case) -> bool:
    """Whether a loaded model can't be on any GPU: whoever holds memory there is listed, and surely not the runtime."""
    loaded = case.runtime.state.value_or("") == "loaded" and isinstance(case.runtime.pid, Known)
    gpus = gpus_of(case)
    if not loaded or not gpus or not all(isinstance(g.processes, Known) for g in gpus) or outruns_the_host(case):
        return False
    if any(may_be_own(case, p) for g in gpus for p in g.processes.value_or([])):
        return False
    return all(_unlisted_bytes(g) is not None and (_unlisted_bytes(g) or 0) < NOBODYS_BYTES for g in gpus)


def _unlisted_bytes(gpu: Gpu) -> float | None:
    """Memory in use that no listed process accounts for; in a container the list is often short."""
    if not isinstance(gpu.vram_used_bytes, Known):
        return None
    return gpu.vram_used_bytes.value - sum(p.vram_bytes.value_or(0) for p in gpu.processes.value_or([]))

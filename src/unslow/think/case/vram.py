"""The GPU memory of a case: which GPUs the runtime names, which process is its own, what there is and who holds it."""

import re
from collections.abc import Sequence

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.merge import computing_gpus
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import GB, GIB, MIB, Known
from unslow.think.memo import once
from unslow.think.physics.placement import COMPUTE_BUFFER_BYTES, FIT_MARGIN_BYTES

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
_VENDORS = {"CUDA": "NVIDIA", "ROCm": "AMD", "HIP": "AMD"}
_NOISE = re.compile(
    r"\((?:tm|r|radv[^()]{0,200}|[0-9a-f:.]{1,40})\)|\b(?:nvidia|amd|intel|corporation|geforce)\b", re.IGNORECASE
)
"""What some sources put into the name of a GPU and others leave out."""
_MOST_DIGITS = 4


def gpus_named(
    case: Case, devices: Sequence[SeenDevice], seen: Sequence[SeenDevice], gpus: tuple[Gpu, ...]
) -> tuple[Gpu, ...]:
    """The GPUs that these devices are, `seen` being all that the runtime lists; of alike ones all that it may be."""
    order = visible_gpus(case, gpus) if _in_order(case, gpus) else None
    chosen = [gpu for device in devices for gpu in _one_of(device, seen, candidate_gpus(device, gpus), order)]
    return tuple(gpu for gpu in gpus if gpu in chosen)


def candidate_gpus(device: SeenDevice, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that have the name of a device; those of its maker, where it has none."""
    if not device.description:
        maker = _VENDORS.get(_prefix(device.name), "")
        return tuple(gpu for gpu in gpus if not maker or gpu.vendor.value_or(maker) == maker)
    wanted = _words(device.description)
    named = [(gpu, _words(gpu.name.value_or(""))) for gpu in gpus if gpu.name.value_or("")]
    same = tuple(gpu for gpu, words in named if words == wanted)
    same = same or tuple(gpu for gpu, _ in named if _same_device(gpu, device))
    return same or tuple(gpu for gpu, words in named if words and wanted and (words in wanted or wanted in words))


def set_aside(case: Case, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs that settings leave to the runtime; all of them where none does, or where numbers may mean another."""
    runtime = case.runtime
    asked = [name for name in runtime.device_set.value_or("").split(",") if name[-1:].isdigit()]
    if asked:
        named = [SeenDevice(name=name.strip()) for name in asked]
        return gpus_named(case, named, named, gpus) or gpus
    if not _in_order(case, gpus):
        return gpus
    left = tuple(gpu for gpu in gpus if gpu.index in visible_gpus(case, gpus)) or gpus
    alone = runtime.main_gpu.value_or(0) if runtime.split_mode.value_or("") == "none" else -1
    return left[alone : alone + 1] or left if alone >= 0 else left


def visible_gpus(case: Case, gpus: tuple[Gpu, ...]) -> list[int]:
    """The numbers of the GPUs that the environment leaves visible, in the runtime's order; all where it hides none."""
    environment = case.runtime.environment.value_or({})
    for value in (environment[name] for name in _VISIBLE if name in environment):
        numbers = [part.strip() for part in value.strip("\"' ").split(",")]
        if all(number.isdecimal() and len(number) <= _MOST_DIGITS for number in numbers):
            return [int(number) for number in numbers]
    return [gpu.index for gpu in gpus]


def _one_of(
    device: SeenDevice, seen: Sequence[SeenDevice], alike: tuple[Gpu, ...], order: list[int] | None
) -> tuple[Gpu, ...]:
    """Of GPUs with one name the one that a device is: they have the same numbers, or are listed in the same order."""
    number = number_of(device.name)
    if len(alike) < 2 or number is None:  # noqa: PLR2004 (several)
        return alike
    if order is not None:
        place = order[number] if number < len(order) else -1
        return tuple(gpu for gpu in alike if gpu.index == place) or alike
    twins = [o.name for o in seen if _prefix(o.name) == _prefix(device.name) and candidate_gpus(o, alike)]
    return (alike[twins.index(device.name)],) if len(twins) == len(alike) and device.name in twins else alike


def _in_order(case: Case, gpus: tuple[Gpu, ...]) -> bool:
    """Whether CUDA numbers them as the driver does: it puts the fastest first, unless told otherwise."""
    by_bus = case.runtime.environment.value_or({}).get("CUDA_DEVICE_ORDER", "") == "PCI_BUS_ID"
    return by_bus or len({gpu.name.value_or("") for gpu in gpus}) == 1


def number_of(name: str) -> int | None:
    """The number at the end of a device's name, such as CUDA0; None where there is none."""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits) if 0 < len(digits) <= _MOST_DIGITS else None


def _prefix(name: str) -> str:
    return name.rstrip("0123456789")


def _words(name: str) -> str:
    return " ".join(_NOISE.sub(" ", name).lower().split())


def _same_device(gpu: Gpu, device: SeenDevice) -> bool:
    """Whether the catalogue takes both for the same; the size of the memory tells some that share a name."""
    total = int(gpu.vram_total_bytes.value_or(0))
    known = find_device(gpu.name.value_or(""), total)
    return known is not None and known == find_device(device.description, int(device.total_bytes.value_or(total)))


_OF_OLLAMA = {"ollama", "ollama_llama_server"}
_OF_LM_STUDIO = {"lm studio", "lm-studio", "llmster", "node"}
"""The app, its daemon, and the program in which it runs its engines: `.lmstudio/.internal/utils/node`."""
_WORKERS = {"vLLM": "VLLM::", "SGLang": "sglang::"}
"""How the processes are called that a server starts to compute for it."""
_NAMED_PROGRAMS = ("llama.cpp", "ollama")  # Runtimes whose programs have names of their own, wherever they run
_LAUNCHERS = {"docker", "podman", "sudo", "bash", "sh", "node"}
_CORE_READS = 24 * GB
"""What one core reads in a second at most: 11 to 24 GB/s on servers and desktops of the last ten years."""
_HOST_READS = 614 * GB  # Twelve channels of DDR5-6400, the most that a socket has
_MEASURED_OFF = 1.5  # How far a measured bandwidth may be below what the memory gives at its best
_CACHED_BYTES = GIB  # A model below it may lie in a processor's caches, which are faster than any memory


def is_own(case: Case, process: GpuProcess, *, on_gpu: bool) -> bool:
    """Whether a process is the runtime or computes for it; `on_gpu` says that the runtime is known to use a GPU.

    A number that no list has is one of another namespace, as in a container: the only one with the right name is it.
    """
    if _is_worker(case, process):
        return True
    pid = case.runtime.pid
    if isinstance(pid, Known) and (process.pid == pid.value or own_pid_is_listed(case)):
        return process.pid == pid.value
    if not has_own_name(case, process):
        return False
    return not isinstance(pid, Known) or (on_gpu and sum(has_own_name(case, p) for p in _listed(case)) == 1)


def may_be_own(case: Case, process: GpuProcess) -> bool:
    """Whether nothing shows that a process is somebody else's."""
    pid = case.runtime.pid
    if isinstance(pid, Known) and own_pid_is_listed(case):
        return process.pid == pid.value or _is_worker(case, process)
    name = case.runtime.name.value_or("").lower()
    known = bool(_own_program(case)) or any(named in name for named in _NAMED_PROGRAMS)
    return not known or not isinstance(process.name, Known) or has_own_name(case, process)


def own_pid_is_listed(case: Case) -> bool:
    """Whether a driver lists the runtime by its number, so that all others that it lists are others."""
    pid = case.runtime.pid
    return isinstance(pid, Known) and any(process.pid == pid.value for process in _listed(case))


def has_own_name(case: Case, process: GpuProcess) -> bool:
    """Whether a process is called like the programs of the runtime."""
    program, runtime = _program(process.name.value_or("")), case.runtime.name.value_or("").lower()
    ollama = "ollama" in runtime and program in _OF_OLLAMA
    studio = "lm studio" in runtime and program.lower() in _OF_LM_STUDIO
    return program == "llama-server" or ollama or studio or (bool(program) and program == _own_program(case))


def outruns_the_host(case: Case) -> bool:
    """Whether tokens came faster than the host reads the weights for each: then a GPU computes, whoever lists it."""
    rate, weights = case.run.decode_tokens_per_s.value_or(0.0), case.model.weights_bytes.value_or(0)
    experts, used = case.model.experts.value_or(0), case.model.experts_used.value_or(0)
    read = weights * (used / experts if 0 < used < experts else 1.0)
    memory, cores = case.machine.memory.read_bytes_per_s, case.machine.cpu.physical_cores.value_or(0)
    most = min(_HOST_READS, cores * _CORE_READS) if cores else _HOST_READS
    most = _MEASURED_OFF * memory.value if isinstance(memory, Known) else most
    return read >= _CACHED_BYTES and rate * read > most


def _listed(case: Case) -> list[GpuProcess]:
    return [process for gpu in case.machine.gpus.value_or(()) for process in gpu.processes.value_or([])]


def _is_worker(case: Case, process: GpuProcess) -> bool:
    worker = _WORKERS.get(case.runtime.name.value_or(""))
    return bool(worker) and process.name.value_or("").rpartition("/")[2].startswith(worker or "")


def _own_program(case: Case) -> str:
    """The program that was started, where its name tells it from others, as that of an interpreter does not."""
    program = _program(next(iter(case.runtime.command.value_or([])), ""))
    return "" if program.lower().startswith("python") or program in _LAUNCHERS else program


def _program(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")


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
    return computing_gpus(case.machine.gpus.value_or(()))


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


@once
def gpus_used(case: Case) -> tuple[Gpu, ...]:
    """The GPUs that the runtime computes on: by its own devices and process, else those that settings leave to it."""
    gpus, devices = gpus_of(case), computing_devices(case)
    if len(gpus) < 2:  # noqa: PLR2004 (several)
        return gpus
    held = gpus_held(case)
    matching = [candidate_gpus(device, gpus) for device in devices]
    possible = [gpu for alike in matching for gpu in alike]
    one_each = len(held) == len(devices) and all(gpu in possible for gpu in held)
    if held and (not possible or (one_each and any(len(alike) > 1 for alike in matching))):
        return held
    return gpus_named(case, devices, seen_gpus(case), gpus) or set_aside(case, gpus)


def gpus_held(case: Case) -> tuple[Gpu, ...]:
    """The GPUs that list the runtime, less those where it has but a context, if it has more elsewhere.

    None where no list is known or it is on none of them.
    """
    every = gpus_of(case)
    held = [(gpu, sum(p.vram_bytes.value_or(0) for p in own)) for gpu in every if (own := _own_on(case, gpu))]
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


def other_gpu_processes(case: Case) -> list[GpuProcess]:
    """Processes that hold memory on the runtime's GPUs and are not the runtime, the largest first."""
    loaded, named = case.runtime.state.value_or("") != "failed", isinstance(case.runtime.pid, Known)
    others = [p for p in _processes(case) if not _is_own(case, p)]
    if loaded:
        others = [p for p in others if not ((named or not isinstance(p.name, Known)) and _is_doubtful(case, p))]
    return sorted(others, key=lambda p: -p.vram_bytes.value_or(0))


def own_vram_bytes(case: Case) -> float | None:
    """What the runtime's process holds by the driver's count; None where it is not listed or not counted."""
    return own_bytes_on(case, *gpus_of(case))


def own_bytes_on(case: Case, *gpus: Gpu) -> float | None:
    """The same on some GPUs."""
    sizes = (p.vram_bytes for gpu in gpus for p in _own_on(case, gpu))
    held = [size.value for size in sizes if isinstance(size, Known)]
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


@once
def runtime_sees_gpu(case: Case) -> bool | None:
    """Whether the runtime has a GPU to compute on; None where nothing tells."""
    runtime = case.runtime
    if own_vram_bytes(case) is not None or _says_that_it_uses_one(case):
        return True
    if isinstance(runtime.gpu_refused, Known) or isinstance(runtime.devices, Known):
        return False
    if isinstance(runtime.gpu_layers, Known):
        return None  # no layer is there: for want of a backend, or of room
    return False if whole_on_host(case) or _holds_nothing(case) else None


@once
def _says_that_it_uses_one(case: Case) -> bool:
    runtime = case.runtime
    held = runtime.vram_share.value_or(0) > 0 or runtime.size_vram_bytes.value_or(0) > 0
    held = held or any(b.on_gpu for b in runtime.buffers.value_or([]))
    counts_layers = runtime.gpu_layers.value_or(0) > 0
    if not counts_layers and isinstance(runtime.gpu_layers, Known) and not isinstance(runtime.gpu_refused, Known):
        # None of them, by a program that counts them only where it has a GPU
        ollama = "ollama" in runtime.name.value_or("").lower()  # it counts them without one too, if it saw none
        counts_layers = not ollama or isinstance(runtime.available_bytes, Known)
    return held or counts_layers or failed_on_gpu(case) or bool(seen_gpus(case))


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
    # In a container the list is often short: what is in use and nobody's tells
    unlisted = [
        gpu.vram_used_bytes.value - sum(p.vram_bytes.value_or(0) for p in gpu.processes.value_or([]))
        for gpu in gpus
        if isinstance(gpu.vram_used_bytes, Known)
    ]
    return len(unlisted) == len(gpus) and all(size < NOBODYS_BYTES for size in unlisted)

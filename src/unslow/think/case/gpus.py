"""The GPUs of a case: their kind, whether the runtime reaches them and has code for them, their state under load."""

import math
import re
from typing import NamedTuple

from unslow.catalog.devices import Device, find_device, parse_device_name
from unslow.catalog.hardware_families import find_gpu_family, gpu_maker, unified_memory
from unslow.facts.account import Topic
from unslow.facts.machine import Gpu
from unslow.facts.run import GpuTelemetry, GpuUnderLoad
from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known
from unslow.think.case.narrative import remarks_on
from unslow.think.case.runtime import dotted_version
from unslow.think.case.vram import gpu_places, gpus_named, gpus_of, gpus_used, runtime_sees_gpu, seen_gpus
from unslow.think.memo import once

_APPLE = re.compile(r"\bApple\b|\bi?Mac(?:Book|OS|mini| Studio| Pro|\b)|\bDarwin\b", re.IGNORECASE)
_BARE_CHIP = re.compile(r"M[1-9](?: (?:Pro|Max|Ultra))?\b(?!-)", re.IGNORECASE)
"""How people shorten the names of Apple's chips; others have such names too."""
_MLX = re.compile(r"\bv?mlx\b|\bmlx[-_]", re.IGNORECASE)
MUCH_FASTER = 1.5  # Of the bandwidths: between GPUs that are closer, other reasons decide which is used
SURELY_FREE = 0.75
"""Of a card's memory, where nobody looked: a desktop with a browser takes one to two of the usual eight GiB or more."""


def device_of(gpu: Gpu) -> Device | None:
    """The catalogue's entry of a GPU."""
    return find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0)))


def is_integrated(gpu: Gpu) -> bool:
    """Whether a GPU shares the host's memory: as its driver says, else by its name."""
    if isinstance(gpu.kind, Known):
        return gpu.kind.value == "integrated"
    known = device_of(gpu)
    return known.unified if known else is_integrated_name(gpu.name.value_or(""))


def has_far_more_bandwidth(fast: Device | None, slow: Device | None) -> bool:
    """Whether the memory of one device is so much faster that it decides; False where one of them is not known."""
    return bool(fast and slow and fast.memory_bytes_per_s > MUCH_FASTER * slow.memory_bytes_per_s > 0)


def is_integrated_name(name: str) -> bool:
    """Whether a device of this name shares the host's memory."""
    known = find_device(name) or find_gpu_family(name)
    return known is not None and known.unified


@once
def is_apple(case: Case) -> bool:
    """Whether the machine is a Mac: by its names, by a limit that only macOS has, or by an engine that needs one."""
    machine = case.machine
    system, cpu = machine.system.name.value_or(""), machine.cpu.model.value_or("")
    mlx = not system and _MLX.search(case.runtime.name.value_or(""))  # Linux has mlx[cpu] and mlx[cuda]
    if isinstance(machine.memory.wired_limit_bytes, Known) or mlx:
        return True
    if _APPLE.search(system) or _APPLE.search(cpu) or (not system and _BARE_CHIP.fullmatch(cpu.strip())):
        return True
    return any(_is_of_apple(gpu, system) for gpu in gpus_of(case))


def _is_of_apple(gpu: Gpu, system: str) -> bool:
    """By its maker; the bare name of a chip counts where nothing names another maker or system."""
    name, maker = gpu.name.value_or(""), gpu.vendor.value_or("")
    if maker or _APPLE.search(name):
        return bool(_APPLE.search(maker or name))
    return not system and not parse_device_name(name).vendors and bool(_BARE_CHIP.match(name.strip()))


def is_unified(case: Case) -> bool:
    """Whether GPU and host share one memory."""
    gpus = gpus_used(case)
    return is_apple(case) or (bool(gpus) and all(is_integrated(g) for g in gpus))


def is_windows(case: Case) -> bool:
    """Whether it runs on Windows."""
    return "windows" in case.machine.system.name.value_or("").lower()


def has_no_gpu(case: Case) -> bool:
    """Whether the machine has no GPU: looked at, or told."""
    gpus = case.machine.gpus
    return not gpus.value if isinstance(gpus, Known) else bool(remarks_on(case, Topic.GPU_ABSENT))


def vram_total_bytes(case: Case) -> float | None:
    """What the GPUs in use have: as reported, else by the catalogue; None where it is not known of each."""
    sizes = [gpu_capacity_bytes(g) for g in gpus_used(case)]
    return float(sum(sizes)) if sizes and all(sizes) else None


def gpu_capacity_bytes(gpu: Gpu) -> int:
    """All memory of one GPU: as reported, else by the catalogue; 0 where neither tells."""
    known = device_of(gpu)
    return gpu.vram_total_bytes.value_or(0) or (known.capacity_bytes if known else 0)


def unified_limit_bytes(case: Case) -> float | None:
    """The most that the GPU of a unified memory may take: as set, else what its vendor's systems give by default."""
    memory = case.machine.memory
    if isinstance(memory.wired_limit_bytes, Known) and memory.wired_limit_bytes.value:
        return float(memory.wired_limit_bytes.value)
    if not isinstance(memory.total_bytes, Known) or not is_apple(case):
        return None
    return float(unified_memory("Apple").gpu_bytes(memory.total_bytes.value))


_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_NOTHING = {"", "-1", "none", "void", "nodevfiles"}
_CPU_LIBRARY = re.compile(r"^cpu(?:_\w+)?$", re.IGNORECASE)
OLDEST_CUDA = (5, 0)  # Compute capability below which the CUDA libraries that runtimes ship have no code
_AMD = re.compile(r"\bamd\b|\bradeon\b", re.IGNORECASE)
VULKAN_IN_OLLAMA = (0, 12, 6)  # The version from which Ollama can reach such GPUs, through Vulkan


class Unreached(NamedTuple):
    """Why a GPU can't be reached, the fact that says so, and whether its architecture is the reason."""

    why: str
    fact: str
    by_architecture: bool = False


def unreached(case: Case) -> Unreached | None:
    """Why the runtime at hand has no way to the machine's GPU; None where there may be one."""
    if hidden := hidden_by_environment(case):
        return hidden
    # A container on a Mac is a Linux of its own, to which macOS does not lend its GPU
    system, runtime, fact = case.machine.system, case.runtime, "runtime.container"
    container = runtime.container
    if isinstance(system.container, Known):
        container, fact = system.container, "machine.system.container"
    if container.value_or("").startswith("docker") and is_apple(case):
        return Unreached("Docker on macOS runs in a virtual machine that has no access to the GPU", fact)
    # Metal as the runtimes use it needs Apple's own chips
    if system.name.value_or("") == "macOS" and "ollama" in runtime.name.value_or("").lower():
        of_amd = [g for g in gpus_of(case) if _AMD.search(f"{g.vendor.value_or('')} {g.name.value_or('')}")]
        if of_amd:
            return _of_card(case, of_amd[0], "Ollama uses the GPU of a Mac only where it is Apple's own")
    # The reason of the first GPU that settings leave to the runtime, where each of these has one
    reasons = [(gpu, _unsupported(case, gpu)) for gpu in gpus_used(case)]
    return _of_card(case, *reasons[0]) if reasons and all(why for _, why in reasons) else None


def hidden_by_environment(case: Case) -> Unreached | None:
    """A variable of the runtime's environment that hides the GPU from it; None where there is none."""
    environment = case.runtime.environment.value_or({})
    for name in _HIDING:
        if name in environment and environment[name].strip().strip("\"'").lower() in _NOTHING:
            return Unreached(f"{name}={environment[name]!r} hides it", "runtime.environment")
    if _CPU_LIBRARY.match(environment.get("OLLAMA_LLM_LIBRARY", "").strip("\"'")):
        return Unreached("OLLAMA_LLM_LIBRARY asks for the CPU", "runtime.environment")
    return None


def _unsupported(case: Case, gpu: Gpu) -> str:
    """Why the libraries of the runtime have no code for a GPU; empty where they may have."""
    name = gpu.name.value_or("")
    family = find_gpu_family(name)
    capability = dotted_version(gpu.compute_capability.value_or(family.compute_capability if family else ""))
    if capability and capability < OLDEST_CUDA:
        return f"{name or 'the GPU'} is older than the CUDA libraries have code for"
    version = dotted_version(case.runtime.version.value_or(""))
    if "ollama" not in case.runtime.name.value_or("").lower() or not version or version >= VULKAN_IN_OLLAMA:
        return ""
    if gpu.vendor.value_or("") == "Intel":
        return f"this version of Ollama has no backend for {name or 'GPUs of Intel'}"
    return f"the ROCm libraries of Ollama have no code for {name}" if family and family.rocm is False else ""


def _of_card(case: Case, gpu: Gpu, why: str) -> Unreached:
    index = case.machine.gpus.value_or(()).index(gpu)
    capable = isinstance(gpu.compute_capability, Known) and device_of(gpu) is None
    return Unreached(why, f"machine.gpus.{index}.{'compute_capability' if capable else 'name'}", by_architecture=True)


OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"  # What makes ROCm take a GPU for another


class Card(NamedTuple):
    """A GPU with its place in `machine.gpus`, its architecture, and the fact of it that says so.

    `runs` is None where the architecture is unknown, or where an override says that it is another.
    """

    place: int
    gpu: Gpu
    own: str
    fact: str
    runs: bool | None


def cards_of(case: Case) -> list[Card]:
    """The GPUs that the runtime uses or that settings leave to it; of two makers those that the build is for.

    None where nothing tells what the build was compiled for.
    """
    built = case.runtime.build_architectures.value_or([])
    used, overridden = gpus_used(case), OVERRIDE in case.runtime.environment.value_or({})
    cards = []
    for place, gpu in ((place, gpu) for place, gpu in gpu_places(case) if gpu in used):
        own, fact = gpu.architecture.value_or(""), "architecture"
        if isinstance(gpu.compute_capability, Known):
            own, fact = gpu.compute_capability.value, "compute_capability"
        unknown = not own or (own.startswith("gfx") and overridden)
        cards.append(Card(place, gpu, own, fact, None if unknown else _runs(own, built)))
    for_amd = any(target.startswith("gfx") for target in built)
    same_maker = [card for card in cards if not card.own or card.own.startswith("gfx") == for_amd]
    return (same_maker or cards) if built else []


def names_of(case: Case, cards: list[Card]) -> list[str]:
    """What the runtime calls these, such as CUDA0; none where it does not list each of them."""
    seen, gpus, wanted = seen_gpus(case), gpus_of(case), [card.gpu for card in cards]
    alike = [(device.name, gpus_named(case, [device], seen, gpus)) for device in seen]
    named = [name for name, found in alike if found and all(gpu in wanted for gpu in found)]
    return named if len(named) == len(wanted) else []


def _runs(own: str, built: list[str]) -> bool:
    """Whether any of the build's architectures runs on it: gfx targets must match, CUDA's must not be newer.

    Newer GPUs may still run what is compiled at load, older ones never.
    """
    if own.startswith("gfx"):
        return own in {target.split(":")[0] for target in built}
    digits = [int(found[0]) for found in (re.search(r"\d+", target) for target in built) if found]
    capability = re.fullmatch(r"(\d{1,2})\.(\d)", own)
    if not digits or not capability:
        return True
    scale = 10 if min(digits) >= 300 else 1  # noqa: PLR2004 (llama.cpp writes 8.6 as 860, others as 86)
    return min(digits) <= int(capability[1] + capability[2]) * scale


BUSY = 0.3  # A GPU that is less busy than this when somebody looks is as good as idle
FULLY_BUSY = 0.9  # Of the time: a GPU that computes so much of it has no pauses that anything else could explain
EXPLAINED_SHARE = 0.5
"""Part of a loss, in powers, that lower clocks must account for before they are called its cause."""
THERMAL = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown"})
POWER = frozenset({"sw_power_cap", "hw_power_brake_slowdown"})

HOT_C = 87
"""NVIDIA's boost holds a target of 83 to 87 °C (`nvidia-smi -q -d TEMPERATURE`: GPU Target Temperature): a card that is
warmer can't hold it any more, and gives up clocks."""
HELD_BACK = 0.6
"""Of its power limit: a card that reads its memory all the time takes more, unless something holds it back."""

_AT_WORK = frozenset({"P0", "P1", "P2"})


class LoadedGpu(NamedTuple):
    """A GPU at work; `at` is where its readings stand, `place` where the GPU itself does."""

    gpu: Gpu
    place: str
    at: str
    busy: Fact[float]
    clock_hz: Fact[float]
    power_w: Fact[float]
    temperature_c: Fact[float]
    reasons: Fact[list[str]]

    @property
    def clock_share(self) -> float | None:
        """The clock as a part of the highest; None where one of the two is unknown."""
        most = self.gpu.clock_max_hz.value_or(0)
        return self.clock_hz.value / most if most and isinstance(self.clock_hz, Known) else None

    @property
    def power_share(self) -> float | None:
        """The power as a part of the limit; None where one of the two is unknown."""
        most = self.gpu.power_limit_w.value_or(0)
        return self.power_w.value / most if most and isinstance(self.power_w, Known) else None


def loaded_gpus(case: Case) -> list[LoadedGpu]:
    """The runtime's GPUs as they were while tokens were generated, else as they are now, where they are busy now."""
    used = () if runtime_sees_gpu(case) is False else gpus_used(case)
    found = []
    for number, gpu in ((number, gpu) for number, gpu in gpu_places(case) if gpu in used):
        place = at = f"machine.gpus.{number}"
        readings = (gpu.busy, gpu.clock_hz, gpu.power_w, gpu.temperature_c, gpu.event_reasons)
        if sample := _sample_of(case, gpu):
            at, under = f"run.gpus.{sample[0]}", sample[1]
            readings = (under.busy, under.clock_hz, under.power_max_w, under.temperature_max_c, under.event_reasons)
        # Where nobody read whether it is busy, a chip that is held back at full performance state is
        held_back = is_awake(gpu) and bool((THERMAL | POWER).intersection(gpu.event_reasons.value_or([])))
        if sample or (gpu.busy.value >= BUSY if isinstance(gpu.busy, Known) else held_back):
            found.append(LoadedGpu(gpu, place, at, *readings))
    return found


def gpu_samples(case: Case) -> list[tuple[int, GpuUnderLoad]]:
    """Readings of the runtime's GPUs under load, and their places in `run.gpus`; of all, where no GPU is known."""
    if not gpus_used(case):
        return list(enumerate(case.run.gpus.value_or(())))
    return [sample for gpu in gpus_used(case) if (sample := _sample_of(case, gpu)) is not None]


def watched_gpus(case: Case, watched: tuple[GpuTelemetry, ...]) -> list[GpuTelemetry]:
    """Of the GPUs that were watched those of the runtime; all, where no GPU is known."""
    used = gpus_used(case)
    return [watched[place] for gpu in used for place in _places(gpu, watched)] if used else list(watched)


def _sample_of(case: Case, gpu: Gpu) -> tuple[int, GpuUnderLoad] | None:
    """The readings of one GPU: by its number, and where those of two makers share it, by the order they came in."""
    samples, telemetry = case.run.gpus.value_or(()), case.run.telemetry
    same = [(place, sample) for place, sample in enumerate(samples) if sample.index == gpu.index]
    if len(same) > 1 and isinstance(telemetry, Known):
        phases = (phase.gpus for phase in telemetry.value.phases if phase.phase == "decode" and phase.samples)
        named = tuple(watched for watched in next(phases, ()) if watched.figures)
        if len(named) == len(samples):
            same = [(place, samples[place]) for place in _places(gpu, named)]
    return same[-1] if same else None


def _places(gpu: Gpu, watched: tuple[GpuTelemetry, ...]) -> list[int]:
    """Where a GPU stands among those that were watched, some of which a driver calls by their place on the bus."""
    same = [place for place, other in enumerate(watched) if other.index == gpu.index]
    names = {gpu.name.value_or(""), gpu.bus_id.value_or("")} - {""}
    return [place for place in same if watched[place].name in names] or same[-1:]


def is_awake(gpu: Gpu) -> bool:
    """Whether it is in a state of full performance, as a GPU is that was given work a moment ago."""
    return gpu.performance_state.value_or("") in _AT_WORK


def is_held_back_by_heat(gpu: LoadedGpu) -> bool:
    """Whether a card without pauses is beyond its target temperature at a power far below its limit.

    Heat that follows from work comes with power; heat without it is a card that gave up clocks and still can't cool.
    """
    busy, share, hot = gpu.busy.value_or(0.0), gpu.power_share, gpu.gpu.temperature_slowdown_c.value_or(HOT_C)
    nvidia = gpu_maker(gpu.gpu) == "NVIDIA"  # of others drivers report the hottest spot, which may be far warmer
    too_hot = gpu.temperature_c.value_or(0.0) >= min(hot, HOT_C)
    return nvidia and too_hot and busy >= FULLY_BUSY and share is not None and share <= HELD_BACK


def starved(gpu: LoadedGpu) -> bool:
    """Whether the GPU waits for work most of the time: low clocks are what such a GPU does."""
    return isinstance(gpu.busy, Known) and gpu.busy.value < BUSY


def explains(clock_share: float, lost: float | None) -> bool:
    """Whether clocks so low account for most of a loss; a loss that nobody put a number to is taken as explained."""
    return lost is None or math.log(1 / max(clock_share, 1e-3)) >= EXPLAINED_SHARE * math.log(max(1.0, lost))

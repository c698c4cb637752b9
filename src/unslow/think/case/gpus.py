"""The GPUs of a case: which the runtime uses, what they are, how they share a model, how fast they read."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from unslow.catalog.devices import parse_device_name
from unslow.catalog.hardware_families import find_gpu_family
from unslow.facts.account import Topic
from unslow.facts.machine import Gpu
from unslow.facts.merge import computing_gpus
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.values import MIB, Absence, Known
from unslow.think.case.device import (
    candidate_gpus,
    device_bandwidth,
    device_of,
    is_gpu,
    is_integrated,
    number_of,
    one_of,
)
from unslow.think.case.engine import dotted_version
from unslow.think.case.group import Group
from unslow.think.case.telemetry import BUSY
from unslow.think.physics.placement import link_bytes_per_s
from unslow.think.speed.question import has_links

_BACKEND_BY_PREFIX = {
    "CUDA": "cuda",
    "ROCm": "rocm",
    "HIP": "rocm",
    "Vulkan": "vulkan",
    "MTL": "metal",
    "Metal": "metal",
}
TENSOR_SPLITS = frozenset({"row", "tensor"})
MARGIN_BYTES = 512 * MIB  # What a split that fills a GPU should leave free there
BRIDGED = 2  # GPUs that one bridge joins: of more cards with bridges, some are joined by PCIe alone


class GpuSplit(NamedTuple):
    """The GPUs that work on one token: how many, and whether each has a part of every layer."""

    gpus: int
    cuts_layers: bool


class GpuShare(NamedTuple):
    """One GPU by its number: the model's bytes on it, what is left free there, what it reads in a second."""

    gpu: int
    model_bytes: float
    free_bytes: float
    bytes_per_s: float


_APPLE = re.compile(r"\bApple\b|\bi?Mac(?:Book|OS|mini| Studio| Pro|\b)|\bDarwin\b", re.IGNORECASE)
_BARE_CHIP = re.compile(r"M[1-9](?: (?:Pro|Max|Ultra))?\b(?!-)", re.IGNORECASE)
"""How people shorten the names of Apple's chips; others have such names too."""
_MLX = re.compile(r"\bv?mlx\b|\bmlx[-_]", re.IGNORECASE)
SURELY_FREE = 0.75
"""Of a card's memory, where not measured: a desktop with a browser takes one to two of the usual eight GiB or more."""
_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_NOTHING = {"", "-1", "none", "void", "nodevfiles"}
_CPU_LIBRARY = re.compile(r"^cpu(?:_\w+)?$", re.IGNORECASE)
OLDEST_CUDA = (5, 0)  # Compute capability below which the CUDA libraries that runtimes ship have no code
_AMD = re.compile(r"\bamd\b|\bradeon\b", re.IGNORECASE)
VULKAN_IN_OLLAMA = (0, 12, 6)  # The version from which Ollama can reach such GPUs, through Vulkan


class Unreachable(NamedTuple):
    """Why a GPU can't be reached, the fact that says so, and whether its architecture is the reason."""

    why: str
    fact: str
    by_architecture: bool = False


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


USUAL_LANES = 16
FASTEST_BYTES_PER_S = link_bytes_per_s(5, USUAL_LANES)
"""What any link of today copies at most: where not measured, a copy takes at least as long as over this one."""
ASLEEP = 2  # The highest generation that a link falls to while its GPU rests
SHOW_LINK = "while a prompt is read: {gpu_link}"
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
NOBODYS_BYTES = 512 * MIB
"""GPU memory that belongs to no listed process on a healthy machine: the driver and the display."""
BARE_CONTEXT_BYTES = 600 * MIB
"""A process holds so much on a GPU that it only asked for its memory: 480 to 590 MiB on the recorded machines."""


class GpuView(Group):
    """The GPUs of the machine, as the runtime of a case uses them."""

    @cached_property
    def usable(self) -> tuple[Gpu, ...]:
        """The GPUs of the machine that a runtime uses by default; none where they could not be read."""
        return computing_gpus(self.machine.gpus.value_or(()))

    @cached_property
    def places(self) -> list[tuple[int, Gpu]]:
        """The same GPUs, each with its place in `machine.gpus`, as a path to one of its facts needs it."""
        counted = self.usable
        return [(place, gpu) for place, gpu in enumerate(self.machine.gpus.value_or(())) if gpu in counted]

    @cached_property
    def in_use(self) -> tuple[Gpu, ...]:
        """The GPUs that the runtime computes on: by its devices and process, else those that settings leave to it."""
        gpus, devices = self.usable, self.computing_devices
        if len(gpus) < 2:  # noqa: PLR2004 (several)
            return gpus
        held = self.holding_model
        matching = [candidate_gpus(device, gpus) for device in devices]
        possible = [gpu for alike in matching for gpu in alike]
        one_each = len(held) == len(devices) and all(gpu in possible for gpu in held)
        if held and (not possible or (one_each and any(len(alike) > 1 for alike in matching))):
            return held
        return self.named_by(devices, self.seen_by_runtime, gpus) or self._left_by_settings(gpus)

    @cached_property
    def places_in_use(self) -> list[int]:
        """Where the GPUs stand in the machine's list that the runtime uses."""
        return [place for place, gpu in self.places if gpu in self.in_use]

    @cached_property
    def holding_model(self) -> tuple[Gpu, ...]:
        """The GPUs that list the runtime, less those where it only has a context, if it has more elsewhere."""
        listed = [(gpu, self.case.vram.own_processes_on(gpu)) for gpu in self.usable]
        held = [(gpu, sum(process.vram_bytes.value_or(0) for process in own)) for gpu, own in listed if own]
        more = tuple(gpu for gpu, size in held if size > BARE_CONTEXT_BYTES)
        return more or tuple(gpu for gpu, _ in held)

    @cached_property
    def seen_by_runtime(self) -> list[SeenDevice]:
        """The GPUs that the runtime lists."""
        return [d for d in self.runtime.placement.devices.value_or([]) if is_gpu(d)]

    @cached_property
    def computing_devices(self) -> list[SeenDevice]:
        """The devices that hold the model, else the one that the runtime says it uses, else all GPUs that it lists."""
        seen = self.seen_by_runtime
        named = {device.name: device for device in seen}
        model = self.case.vram.buffers("model", on_gpu=True)
        holding = {b.device: named.get(b.device, SeenDevice(name=b.device)) for b in model}
        used = self.runtime.placement.device_used.value_or("").partition(" ")[0]
        return list(holding.values()) or [d for d in seen if used and d.name == used] or seen

    @cached_property
    def computing_count(self) -> int | None:
        """How many GPUs hold a part of the model; None where nothing tells."""
        held, placed = {b.device for b in self.case.vram.buffers("model", on_gpu=True)}, self.runtime.placement
        if held:
            return len(held)
        parallel = placed.tensor_parallel.value_or(1) * placed.pipeline_parallel.value_or(1)
        if parallel > 1:
            return parallel
        if isinstance(self.machine.gpus, Known) and len(self.usable) <= 1:
            return len(self.usable)
        if placed.split_mode.value_or("") == "none":
            return 1
        listed = all(isinstance(gpu.processes, Known) for gpu in self.usable)
        return len(self.holding_model) or None if listed else None

    @cached_property
    def visible_to_runtime(self) -> bool | None:
        """Whether the runtime has a GPU to compute on; None where nothing tells."""
        placed = self.runtime.placement
        if self.case.vram.own_bytes is not None or self.runtime_says_it_uses_one:
            return True
        if isinstance(placed.gpu_refused, Known) or isinstance(placed.devices, Known):
            return False
        if isinstance(placed.gpu_layers, Known):
            return None  # no layer is there: for want of a backend, or of room
        return False if self.case.placement.weights_on_host or self._hold_nothing else None

    @cached_property
    def runtime_says_it_uses_one(self) -> bool:
        placed, memory = self.runtime.placement, self.runtime.memory
        held = memory.vram_share.value_or(0) > 0 or memory.size_vram_bytes.value_or(0) > 0
        held = held or any(b.on_gpu for b in memory.buffers.value_or([]))
        counts_layers = placed.gpu_layers.value_or(0) > 0
        if placed.gpu_layers.value_or(None) == 0 and not isinstance(placed.gpu_refused, Known):
            # None of them, by a program that counts them only where it has a GPU; Ollama does without one too
            counts_layers = "ollama" not in self.case.engine.name or isinstance(memory.available_bytes, Known)
        return held or counts_layers or self.case.vram.allocation_failed or bool(self.seen_by_runtime)

    @cached_property
    def _hold_nothing(self) -> bool:
        """Whether a loaded model can't be on any GPU: every holder of memory there is listed and not the runtime."""
        loaded = self.runtime.state.value_or("") == "loaded" and isinstance(self.runtime.process.pid, Known)
        gpus = self.usable
        are_listed = bool(gpus) and all(isinstance(g.processes, Known) for g in gpus)
        if not loaded or not are_listed or self.case.vram.outruns_host:
            return False
        if any(self.case.vram.may_be_own(p) for g in gpus for p in g.processes.value_or([])):
            return False
        # In a container the list is often short: what is in use and nobody's tells
        unlisted = [
            gpu.vram_used_bytes.value - sum(p.vram_bytes.value_or(0) for p in gpu.processes.value_or([]))
            for gpu in gpus
            if isinstance(gpu.vram_used_bytes, Known)
        ]
        return len(unlisted) == len(gpus) and all(size < NOBODYS_BYTES for size in unlisted)

    def named_by(
        self, devices: Sequence[SeenDevice], seen: Sequence[SeenDevice], gpus: tuple[Gpu, ...]
    ) -> tuple[Gpu, ...]:
        """The GPUs that these devices are; `seen` are all that the runtime lists. Of identical GPUs, all candidates."""
        order = self._visible_numbers(gpus)
        chosen = [gpu for device in devices for gpu in one_of(device, seen, candidate_gpus(device, gpus), order)]
        return tuple(gpu for gpu in gpus if gpu in chosen)

    def _left_by_settings(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        """The GPUs that settings leave to the runtime; all where none restricts it or numbers are ambiguous."""
        placed = self.runtime.placement
        asked = [name for name in placed.device_set.value_or("").split(",") if name[-1:].isdigit()]
        if asked:
            named = [SeenDevice(name=name.strip()) for name in asked]
            return self.named_by(named, named, gpus) or gpus
        if (visible := self._visible_numbers(gpus)) is None:
            return gpus
        left = tuple(gpu for gpu in gpus if gpu.index in visible) or gpus
        alone = placed.main_gpu.value_or(0) if placed.split_mode.value_or("") == "none" else -1
        return left[alone : alone + 1] or left if alone >= 0 else left

    def _visible_numbers(self, gpus: tuple[Gpu, ...]) -> list[int] | None:
        """The driver's numbers of the GPUs that the environment leaves visible, in the runtime's order.

        None where CUDA numbers them in its own way: it puts the fastest first, unless told otherwise.
        """
        environment = self.runtime.process.environment.value_or({})
        by_bus = environment.get("CUDA_DEVICE_ORDER", "") == "PCI_BUS_ID"
        if not by_bus and len({gpu.name.value_or("") for gpu in gpus}) != 1:
            return None
        for value in (environment[name] for name in _VISIBLE if name in environment):
            numbers = [part.strip() for part in value.strip("\"' ").split(",")]
            if all(number.isdecimal() and number_of(number) is not None for number in numbers):
                return [int(number) for number in numbers]
        return [gpu.index for gpu in gpus]

    def by_number(self, number: int) -> Gpu | None:
        """The GPU that the runtime gives a number: by the device listed under it, else by the driver's number."""
        seen, gpus = self.seen_by_runtime, self.usable
        listed = [device for device in seen if device.description and number_of(device.name) == number]
        named = self.named_by(listed[:1], seen, gpus)
        return named[0] if len(named) == 1 else next((gpu for gpu in gpus if gpu.index == number), None)

    @cached_property
    def label(self) -> str:
        """The name of the first usable GPU in a sentence."""
        name, vendor = (self.usable[0].name.get(), self.usable[0].vendor.get()) if self.usable else (None, None)
        if name and name != "GPU":
            return name
        return f"a GPU from {vendor}" if vendor else "a GPU"

    @cached_property
    def has_none(self) -> bool:
        """Whether the machine has no GPU: looked at, or told."""
        gpus = self.machine.gpus
        return not gpus.value if isinstance(gpus, Known) else bool(self.case.narrative.remarks_on(Topic.GPU_ABSENT))

    @cached_property
    def is_mentioned(self) -> bool:
        """Whether anything speaks of a GPU: the machine's list, the runtime's, or a person who sees it unused."""
        listed = self.usable or self.runtime.placement.devices.value_or([])
        return bool(listed or self.case.narrative.remarks_on(Topic.GPU_UNUSED))

    @cached_property
    def is_apple(self) -> bool:
        """Whether the machine is a Mac: by its names, a limit that only macOS has, or an engine that needs one."""
        machine = self.machine
        system, cpu = machine.system.name.value_or(""), machine.cpu.model.value_or("")
        mlx = not system and _MLX.search(self.runtime.name.value_or(""))  # Linux has mlx[cpu] and mlx[cuda]
        if isinstance(machine.memory.wired_limit_bytes, Known) or mlx:
            return True
        if _APPLE.search(system) or _APPLE.search(cpu) or (not system and _BARE_CHIP.fullmatch(cpu.strip())):
            return True
        for name, maker in ((gpu.name.value_or(""), gpu.vendor.value_or("")) for gpu in self.usable):
            # The bare name of a chip counts where nothing names another maker or system
            others = system or maker or parse_device_name(name).vendors
            if _APPLE.search(maker or name) or (not others and _BARE_CHIP.match(name.strip())):
                return True
        return False

    @cached_property
    def is_unified(self) -> bool:
        """Whether GPU and host share one memory."""
        gpus = self.in_use
        return self.is_apple or (bool(gpus) and all(is_integrated(g) for g in gpus))

    @cached_property
    def unreachable(self) -> Unreachable | None:
        """Why the runtime at hand has no way to the machine's GPU; None where there may be one."""
        if hidden := self.hidden_by_environment:
            return hidden
        # A container on a Mac is a Linux of its own, to which macOS does not lend its GPU
        system, runtime, fact = self.machine.system, self.runtime, "runtime.process.container"
        container = runtime.process.container
        if isinstance(system.container, Known):
            container, fact = system.container, "machine.system.container"
        if container.value_or("").startswith("docker") and self.is_apple:
            return Unreachable("Docker on macOS runs in a virtual machine that has no access to the GPU", fact)
        # The reason of the first GPU that settings leave to the runtime, where each of these has one
        reasons = [(gpu, self._unsupported_reason(gpu)) for gpu in self.in_use]
        # Metal as the runtimes use it needs Apple's own chips
        if system.name.value_or("") == "macOS" and "ollama" in self.case.engine.name:
            of_amd = [g for g in self.usable if _AMD.search(f"{g.vendor.value_or('')} {g.name.value_or('')}")]
            reasons = [(gpu, "Ollama uses the GPU of a Mac only where it is Apple's own") for gpu in of_amd] or reasons
        if not reasons or not all(why for _, why in reasons):
            return None
        gpu, why = reasons[0]
        index = self.machine.gpus.value_or(()).index(gpu)
        capable = isinstance(gpu.compute_capability, Known) and device_of(gpu) is None
        fact = f"machine.gpus.{index}.{'compute_capability' if capable else 'name'}"
        return Unreachable(why, fact, by_architecture=True)

    @cached_property
    def hidden_by_environment(self) -> Unreachable | None:
        """A variable of the runtime's environment that hides the GPU from it; None where there is none."""
        environment = self.runtime.process.environment.value_or({})
        for name in _HIDING:
            if name in environment and environment[name].strip().strip("\"'").lower() in _NOTHING:
                return Unreachable(f"{name}={environment[name]!r} hides it", "runtime.process.environment")
        if _CPU_LIBRARY.match(environment.get("OLLAMA_LLM_LIBRARY", "").strip("\"'")):
            return Unreachable("OLLAMA_LLM_LIBRARY asks for the CPU", "runtime.process.environment")
        return None

    @cached_property
    def hiding_variables(self) -> list[str]:
        """Environment variables of the runtime that hide every GPU from a backend."""
        given = self.case.engine.environment
        return sorted(name for name in _VISIBLE if name in given and given[name].strip() in ("", "-1"))

    def _unsupported_reason(self, gpu: Gpu) -> str:
        """Why the libraries of the runtime have no code for a GPU; empty where they may have."""
        name = gpu.name.value_or("")
        family = find_gpu_family(name)
        capability = dotted_version(gpu.compute_capability.value_or(family.compute_capability if family else ""))
        if capability and capability < OLDEST_CUDA:
            return f"{name or 'the GPU'} is older than the CUDA libraries have code for"
        version = dotted_version(self.runtime.version.value_or(""))
        if "ollama" not in self.case.engine.name or not version or version >= VULKAN_IN_OLLAMA:
            return ""
        if gpu.vendor.value_or("") == "Intel":
            return f"this version of Ollama has no backend for {name or 'GPUs of Intel'}"
        return f"the ROCm libraries of Ollama have no code for {name}" if family and family.rocm is False else ""

    @cached_property
    def cards(self) -> list[Card]:
        """The GPUs that it may use, of two makers those that the build is for; none where its targets are unknown."""
        built = self.runtime.build.architectures.value_or([])
        used, overridden = self.in_use, OVERRIDE in self.runtime.process.environment.value_or({})
        cards = []
        for place, gpu in ((place, gpu) for place, gpu in self.places if gpu in used):
            own, fact = gpu.architecture.value_or(""), "architecture"
            if isinstance(gpu.compute_capability, Known):
                own, fact = gpu.compute_capability.value, "compute_capability"
            unknown = not own or (own.startswith("gfx") and overridden)
            cards.append(Card(place, gpu, own, fact, None if unknown else _runs(own, built)))
        for_amd = any(target.startswith("gfx") for target in built)
        same_maker = [card for card in cards if not card.own or card.own.startswith("gfx") == for_amd]
        return (same_maker or cards) if built else []

    @cached_property
    def split_tensors(self) -> bool | None:
        """Whether every layer is cut in parts, one for each GPU; None where nothing tells how the model is split."""
        parallel, mode = self.runtime.placement.tensor_parallel, self.runtime.placement.split_mode
        if isinstance(parallel, Known) and parallel.value > 1:
            return True
        if isinstance(mode, Known):
            return mode.value in TENSOR_SPLITS
        return False if isinstance(parallel, Known) else None

    def split_over(self, used: int) -> GpuSplit:
        """How many of the GPUs in use a token passes through: of several copies of a model it uses one.

        llama.cpp's own ways to cut layers are not told apart here: what they cost is held against whole layers.
        """
        tensor, pipeline = self.runtime.placement.tensor_parallel, self.runtime.placement.pipeline_parallel.value_or(1)
        if not isinstance(tensor, Known):
            return GpuSplit(max(1, used), cuts_layers=False)
        if tensor.value > 1:  # stages of a pipeline take turns, so a token is on one group of these at a time
            return GpuSplit(tensor.value, cuts_layers=True)
        return GpuSplit(max(1, min(used, pipeline)), cuts_layers=False)

    @cached_property
    def model_copies(self) -> int:
        """How many copies of the model an engine has, each on GPUs of its own; a request uses one copy."""
        used, tensor = len(self.in_use), self.runtime.placement.tensor_parallel
        if not self.case.engine.runs_paged or not isinstance(tensor, Known):
            return 1
        return max(1, used // max(1, tensor.value * self.runtime.placement.pipeline_parallel.value_or(1)))

    def weight_shares(self, count: int) -> list[float]:
        """What part of the weights each of these GPUs holds: as allocated, where the buffers are as many.

        Else as their memory, which is how llama.cpp splits by default; equal parts where every layer is cut.
        """
        held = [float(b.bytes) for b in self.case.vram.buffers("model", on_gpu=True)]
        if len(held) != count and self.runtime.placement.tensor_parallel.value_or(1) == 1:
            held = [float(gpu.vram_total_bytes.value_or(0)) for gpu in self.in_use]
        known = len(held) == count and all(held)
        return [part / sum(held) for part in held] if known else [1 / count] * count

    @cached_property
    def shares(self) -> list[GpuShare]:
        """What each GPU of a split holds, by the number at the end of its buffers' names; empty without numbers."""
        held: dict[int, float] = {}
        for buffer in self.case.vram.all_buffers:
            held[_number(buffer)] = held.get(_number(buffer), 0.0) + buffer.bytes
        gpus = [(number, gpu) for number in sorted(held) if (gpu := self.by_number(number)) is not None]
        return [GpuShare(n, held[n], gpu.vram_free_bytes.need(), device_bandwidth(gpu)[0]) for n, gpu in gpus]

    @cached_property
    def rebalanced_buffers(self) -> list[Buffer]:
        """The runtime's buffers as they would be with the fastest GPUs filled first; one that holds nothing is gone."""
        best = {p.gpu: int(p.model_bytes) for p in filled_shares(self.shares)}
        buffers = self.case.vram.all_buffers
        first = {number: buffer for buffer in reversed(buffers) if (number := _number(buffer)) in best}
        others = [b for b in buffers if _number(b) not in best]
        return [msgspec.structs.replace(b, bytes=best[n]) for n, b in sorted(first.items()) if best[n]] + others

    @cached_property
    def have_fast_links(self) -> bool | None:
        """Whether all GPUs in use are linked with each other (NVLink); None where driver and catalog don't say."""
        gpus, linked, bridged = self.in_use, True, False
        for gpu in gpus:
            links, known = gpu.nvlinks_active, device_of(gpu)
            if isinstance(links, Known):
                linked &= links.value > 0
            elif links.absence is Absence.NOT_SUPPORTED or (known and not known.link_bytes_per_s):
                linked = False  # the driver of a card without the connector answers that it is not supported
            else:
                return None
            # A card's links go over a bridge, which joins pairs; a module's over its board
            bridged |= known is not None and not has_links(known)
        return linked and not (len(gpus) > BRIDGED and bridged) if gpus else None

    @cached_property
    def host_link_bytes_per_s(self) -> float | None:
        """What the link between host and GPU copies, by the best that was seen of it; None where not measured."""
        rates = []
        for gpu in self.in_use:
            seen = next((g for g in self.run.gpus.value_or(()) if g.index == gpu.index), None)
            now, most = gpu.pcie_generation.value_or(0), gpu.pcie_generation_max
            idle = "gpu_idle" in gpu.event_reasons.value_or([])
            if idle or (isinstance(gpu.busy, Known) and gpu.busy.value < BUSY):
                # A link that was read while the GPU rested has fallen asleep, and says nothing
                now = max(now, most.value) if isinstance(most, Known) else 0 if now <= ASLEEP else now
            generation = (seen.pcie_generation_max_seen.value_or(0) if seen else 0) or now
            lanes = (seen.pcie_width_max_seen.value_or(0) if seen else 0) or gpu.pcie_width.value_or(0)
            if generation and lanes:
                rates.append(link_bytes_per_s(generation, lanes))
        return max(rates, default=None)

    @cached_property
    def backend(self) -> str:
        """Which of the learned backends computes on the GPU."""
        names = [b.device for b in self.case.vram.all_buffers if b.on_gpu] + [d.name for d in self.seen_by_runtime]
        found = (b for n in names for prefix, b in _BACKEND_BY_PREFIX.items() if n.startswith(prefix))
        vendor = next((g.vendor.value_or("") for g in self.usable), "")
        return next(found, {"AMD": "rocm", "Apple": "metal"}.get(vendor, "cuda"))


def _number(buffer: Buffer) -> int:
    """Of the GPU that holds a part of the model, by the end of the buffer's name; -1 of any other buffer."""
    number = number_of(buffer.device)
    return number if number is not None and buffer.on_gpu and buffer.kind == "model" else -1


def filled_shares(parts: list[GpuShare]) -> list[GpuShare]:
    """The same bytes, on the fastest GPUs first, as far as their free memory goes."""
    left = sum(p.model_bytes for p in parts)
    placed: dict[int, float] = {}
    for part in sorted(parts, key=lambda p: -p.bytes_per_s):
        placed[part.gpu] = min(left, part.model_bytes + max(0.0, part.free_bytes - MARGIN_BYTES))
        left -= placed[part.gpu]
    return [p._replace(model_bytes=placed[p.gpu]) for p in parts]


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

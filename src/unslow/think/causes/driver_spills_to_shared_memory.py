"""The driver moved part of what the runtime holds on the GPU into system memory.

## Why it is slow
On Windows the NVIDIA driver lets an allocation succeed that no longer fits, by lending system memory ("shared GPU
memory"); on Linux amdgpu evicts to GTT, and llama.cpp does the same with `GGML_CUDA_ENABLE_UNIFIED_MEMORY=1`. The
runtime believes that all layers are on the GPU. Every token then reads the rest over PCIe, ten to fifty times slower.

Guides say that fewer GPU layers make a full card faster, but that is so only here, where the driver pages; without it
an allocation that does not fit simply fails, and every layer on the GPU is a gain.

## How to confirm
Task Manager shows shared GPU memory in use (beyond a few hundred MB) while the model runs, or
`/sys/class/drm/card*/device/mem_info_gtt_used` grows; the runtime's log says that all layers are on the GPU. While
tokens are generated, tens of MiB cross PCIe for each (`nvidia-smi dmon -s t`), where a healthy GPU shows next to none.
Under WSL no counter shows it: there the log tells, by buffers on the GPU that sum up to more than it has or had free.

## What it is not
Layers that the runtime itself left on the CPU: that is a spill, and its log says so. Nor the few hundred MB that every
desktop keeps there, nor an integrated GPU, which has no other memory.

## How to fix
Let the load fail instead, then ask for fewer bytes:
- Windows: NVIDIA control panel, Manage 3D settings, "CUDA - Sysmem Fallback Policy": prefer no fallback
- LM Studio: "Limit weight offload to dedicated GPU memory" in the hardware settings
- llama.cpp: take `-ngl` out, so that it places what fits; shorten `-c`; `-ctk q8_0 -ctv q8_0`; take
  `GGML_CUDA_ENABLE_UNIFIED_MEMORY` out of the environment
- Ollama: a smaller `num_ctx`, `OLLAMA_KV_CACHE_TYPE=q8_0`; it plans with what it asks for, so `ollama ps` says 100%
  GPU
- vLLM: a lower `--gpu-memory-utilization`; SGLang: a lower `--mem-fraction-static`
- Transformers: `max_memory={0: "20GiB", "cpu": "64GiB"}` with `device_map="auto"`, or a 4-bit `quantization_config`

## Safety
Without the fallback, programs that relied on it run out of memory instead.
"""

import re

from unslow.catalog.hardware_families import gpu_maker
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, MIB, Known
from unslow.think.case.demand import read_demand, read_shape
from unslow.think.case.gpus import is_apple, is_integrated, is_integrated_name, is_windows
from unslow.think.case.narrative import amount_bytes, denies, remarks_on
from unslow.think.case.placement import cpu_computes
from unslow.think.case.prediction import measured_rate
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.vram import candidate_gpus, gpu_places, gpus_of, gpus_used, other_gpu_processes, seen_gpus
from unslow.think.case.work import Cure, cured_placement
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import cite_watched, gpu_figure
from unslow.think.causes._facts import cite, cite_remarks, if_known
from unslow.think.causes._memory_remedies import memory_remedies

MOVABLE = "GGML_CUDA_ENABLE_UNIFIED_MEMORY"
LEAST_FETCHED, LEAST_SHARE = 32 * MIB, 0.01
"""Bytes for a token, and of the weights: a healthy GPU receives some kilobytes, a token and its place."""
_KERNEL = re.compile(r"[3-9]\.\d")
LEAST_BYTES = GIB  # A desktop and pinned buffers take less
ROOMY = 1 / 8
"""Of a GPU's memory: with so much of it free no driver lends; Windows keeps up to a tenth back from programs."""
BEYOND_FREE = GIB // 2
"""Bytes more than were free before: what others gave back meanwhile is seldom more, and a desktop's wobble is less."""
_OF_ALL = re.compile(r"(\d{1,4}(?:\.\d+)?)\s?(?:gi?b)?\s?(?:/|of)\s?\d{1,4}(?:\.\d+)?\s?gi?b", re.IGNORECASE)
_OF_A_GPU = re.compile(r"gpu|video|graphics|vram|gtt|sysmem|system memory fallback", re.IGNORECASE)


def check(case: Case) -> Found | Absent | Suspected:
    """See whether a GPU with memory of its own uses the system's."""
    gpus = gpus_of(case)
    if is_apple(case) or (gpus and all(is_integrated(g) for g in gpus)):
        return Absent("the GPU has no memory of its own: it always uses the system's")
    return first_to_decide(
        case, _by_counters, _by_link, _by_movable, _by_allocated, _by_words, _by_idle_memory, _by_room, _by_driver
    )


def _by_counters(case: Case) -> Found | Absent | None:
    ours = gpus_used(case)
    cards = [(i, g) for i, g in gpu_places(case) if g in ours and not is_integrated(g) and _counters(g)]
    if not cards:
        return None
    index, gpu = max(cards, key=lambda card: max(_counters(card[1]).values()))
    name, used = max(_counters(gpu).items(), key=lambda counter: counter[1])
    # Buffers that the runtime itself put into the host's memory, from where a GPU can read: pinned ones count as
    # lent. What is mapped from a file is not of them.
    host = (b for b in case.runtime.buffers.value_or([]) if not b.on_gpu and not b.device.endswith("_Mapped"))
    own = float(sum(b.bytes for b in host))
    if used < LEAST_BYTES:
        return Absent(f"{used / GIB:.1f} GiB of system memory is lent to the GPU, as for any desktop")
    if own < LEAST_BYTES and cpu_computes(case):
        return Absent("part of the model is on the CPU by the runtime's own doing")
    if used - own < LEAST_BYTES:
        return Absent(f"{own / GIB:.1f} of the {used / GIB:.1f} GiB are what the runtime itself keeps there")
    free = gpu.vram_free_bytes.value_or(0)
    if free >= max(LEAST_BYTES, ROOMY * gpu.vram_total_bytes.value_or(0)):
        return _nothing_made_way(free)
    return _found(
        case,
        f"the driver keeps {(used - own) / GIB:.1f} GiB of what is on the GPU in system memory",
        (cite(case, f"machine.gpus.{index}.{name}", f"{LEAST_BYTES / GIB:.0f} GiB at most on a healthy machine"),),
    )


def _counters(gpu: Gpu) -> dict[str, float]:
    """What the driver counts of system memory that it lends."""
    names = ("shared_used_bytes", "gtt_used_bytes")
    return {n: float(getattr(gpu, n).value) for n in names if isinstance(getattr(gpu, n), Known)}


def _by_link(case: Case) -> Found | None:
    """What crosses the link for each token, where everything lies on the GPU and nobody else uses it."""
    received, rate = gpu_figure(case, "pcie_receive_bytes_per_s"), measured_rate(case)
    # they use the link as well
    others = other_gpu_processes(case) and MOVABLE not in case.runtime.environment.value_or({})
    if received is None or not isinstance(rate, Known) or others or cpu_computes(case) is not False:
        return None
    of_a_token = received.mean / rate.value
    if of_a_token < max(LEAST_FETCHED, LEAST_SHARE * case.model.weights_bytes.value_or(0)):
        return None
    words = f"{of_a_token / MIB:.0f} MiB cross PCIe for each token"
    because = f"{words}, though all layers are on the GPU: the driver keeps part of them in system memory"
    return _found(case, because, (cite_watched(case, "pcie_receive_bytes_per_s", words, "next to nothing"),))


def _by_movable(case: Case) -> Found | None:
    """Memory that may move was asked for, all layers count as on the GPU, and they ask for more than it had."""
    if MOVABLE not in case.runtime.environment.value_or({}) or cpu_computes(case) is not False:
        return None
    demand = read_demand(case)
    if demand.asked <= demand.available:
        return None
    sizes = f"{demand.asked / GIB:.1f} GiB asked for, {demand.available / GIB:.1f} GiB free"
    because = f"{MOVABLE} lets the driver keep in system memory what does not fit: {sizes}"
    return _found(case, because, (cite(case, "runtime.environment", sizes),))


def _by_allocated(case: Case) -> Found | None:
    """More was allocated on a GPU than it has: that only succeeds where a driver lends.

    More than was free may have been given back meanwhile; where the driver may lend, a low speed tells that it was not.
    """
    may_lend = not _is_linux(case) and generates_slowly(case)
    for device in seen_gpus(case):
        held = float(sum(b.bytes for b in case.runtime.buffers.value_or([]) if b.on_gpu and b.device == device.name))
        # All that a device has: as the runtime saw it, else by the one card that it can be
        cards = candidate_gpus(device, gpus_of(case))
        told = cards[0].vram_total_bytes.value_or(0) if len(cards) == 1 else 0
        total, free = float(device.total_bytes.value_or(told)), float(device.free_bytes.value_or(0))
        beyond = (total and held > total) or (may_lend and free and held > free + BEYOND_FREE)
        if not beyond or device.integrated.value_or(default=False) or is_integrated_name(device.description):
            continue
        room = f"it has {total / GIB:.1f} GiB" if total and held > total else f"{free / GIB:.1f} GiB were free"
        words = f"{held / GIB:.1f} GiB were allocated on {device.description or device.name}, and {room}"
        because = f"{words}: the driver keeps the rest in system memory"
        return _found(case, because, (cite(case, "runtime.buffers", room),))
    return None


def _by_room(case: Case) -> Absent | None:
    """GPUs with gigabytes of their own memory free have nothing to send away."""
    free = [g.vram_free_bytes.value_or(None) for g in gpus_used(case)]
    known = [f for f in free if f is not None]
    if not known or len(known) < len(free) or min(known) < LEAST_BYTES:
        return None
    return _nothing_made_way(min(known))


def _nothing_made_way(free: float) -> Absent:
    return Absent(f"{free / GIB:.1f} GiB of the GPU's own memory are free: nothing had to make way")


def _by_driver(case: Case) -> Absent | None:
    """NVIDIA's driver for Linux lends nothing, unless the runtime asks for memory that may move."""
    environment = case.runtime.environment
    vendors = {g.vendor.value_or("") for g in gpus_used(case)}
    if not _is_linux(case) or vendors != {"NVIDIA"} or MOVABLE in environment.value_or({MOVABLE: ""}):
        return None
    return Absent("on Linux this driver lets an allocation fail rather than lend system memory")


def _is_linux(case: Case) -> bool:
    """By its kernel, which under WSL is Microsoft's: there the driver of Windows decides."""
    kernel = case.machine.system.kernel.value_or("").lower()
    return bool(_KERNEL.match(kernel)) and not is_windows(case) and "microsoft" not in kernel


def _by_words(case: Case) -> Found | Suspected | None:
    """Task Manager shows this figure to everybody: who says that it is in use has seen it."""
    said = [r for r in remarks_on(case, Topic.SHARED_MEMORY_USED) if not _is_little(r.text)]
    if not said or denies(case, Topic.SHARED_MEMORY_USED):
        return None
    if not (is_windows(case) or any(_OF_A_GPU.search(remark.text) for remark in said)):
        return Suspected(said[0].text, "machine.gpus.0.shared_used_bytes", CAUSE.ask)
    return _found(
        case, f"the driver keeps part of the model in system memory: {said[0].text}", cite_remarks(case, said)
    )


def _by_idle_memory(case: Case) -> Found | None:
    """A GPU of Windows, filled to the brim, that counts as busy and hardly reads its own memory: it awaits the bus."""
    said, full = remarks_on(case, Topic.MEMORY_BUS_IDLE), remarks_on(case, Topic.VRAM_FULL)
    if not said or not is_windows(case) or not (full or isinstance(case.account.slowdown, Known)):
        return None
    because = f"the GPU is busy and hardly reads its own memory, as when the driver moved a part away: {said[0].text}"
    return _found(case, because, cite_remarks(case, (*said[:1], *full[:1])))


def _is_little(text: str) -> bool:
    """Whether the words give an amount that any desktop has: the first of `0.3/15.9 GB`."""
    of_all = _OF_ALL.search(text)
    amount = float(of_all[1]) * 1e9 if of_all else amount_bytes(text)
    return 0 < amount < LEAST_BYTES or bool(of_all and not amount)


def _found(case: Case, because: str, evidence: Citations) -> Found:
    """Fewer bytes by least loss: what makes all of it fit, fewer layers, then a smaller quant.

    Then the setting that stops the driver from lending, where it has one: NVIDIA's of Windows, and llama.cpp's own.
    """
    own = Cure(only_own_memory=True)
    *milder, quant = memory_remedies(case, own, in_part=False)
    shorter = next((remedy.cure for remedy in milder if remedy.cure), None)
    fewer = None if shorter else if_known(_fewer_layers, case)
    remedies = [*milder, *((fewer,) if fewer else ()), quant]
    why = "let the load fail rather than spill in silence"
    if MOVABLE in case.runtime.environment.value_or({}):
        remedies.append(Remedy(Knob.DRIVER_FALLBACK.to(MOVABLE, why)))
    elif not _is_linux(case) and all(gpu_maker(gpu) in {"", "NVIDIA"} for gpu in gpus_used(case)):
        remedies.append(Remedy(Knob.DRIVER_FALLBACK.to(value=False, why=why)))
    return Found(because, evidence, shorter or own, tuple(remedies))


def _fewer_layers(case: Case) -> Remedy | None:
    """As many layers as the card's own memory holds; nothing where all of them do."""
    shape, cure = read_shape(case), Cure(only_own_memory=True)
    placed = cured_placement(case, shape, cure)
    fitting, total = int(placed.gpu_layers) + placed.output_on_gpu, shape.layers + 1
    if not 0 < fitting < total:
        return None
    why = f"{fitting} of {total} layers fit; the CPU computes the rest faster than the GPU fetches it"
    return Remedy(Knob.GPU_LAYERS.to(fitting, why), cure)


CAUSE = Cause(
    title="The driver spills GPU memory into system memory",
    phase="decode",
    needs=(
        (
            "machine.gpus.0.shared_used_bytes",
            "machine.gpus.0.gtt_used_bytes",
            "machine.gpus.0.vram_free_bytes",
            "run.telemetry",
            "runtime.environment",
            "runtime.buffers",
            "account.remarks",
        ),
    ),
    check=check,
    on_gpu=True,
    explains=("weights_spill_to_ram", "fits_on_one_gpu", "multi_gpu_link_bound"),
    gpu_only=True,
    ask="while it generates: {gpu_shared_memory}",
)

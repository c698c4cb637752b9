"""The driver has moved part of the runtime's GPU memory into system memory.

## Why it is slow
On Windows the NVIDIA driver lets an allocation that no longer fits succeed, by lending system memory ("shared GPU
memory"). On Linux amdgpu evicts to GTT, and llama.cpp does the same with `GGML_CUDA_ENABLE_UNIFIED_MEMORY=1`. The
runtime believes that all layers are on the GPU, but each token reads the rest over PCIe, ten to fifty times slower.

Guides say that fewer GPU layers make a full card faster, but that holds only here, where the driver pages. Without it
an allocation that does not fit simply fails, and every layer on the GPU is a gain.

## How to confirm
Task Manager shows shared GPU memory in use (beyond a few hundred MB) while the model runs, or
`/sys/class/drm/card*/device/mem_info_gtt_used` grows; the runtime's log says that all layers are on the GPU. During
decode, tens of MiB cross PCIe per token (`nvidia-smi dmon -s t`), where a healthy GPU shows next to none. Under WSL no
counter shows it; there the log does: the buffers on the GPU add up to more than it has or had free.

## What it is not
Layers that the runtime itself left on the CPU: that is a spill too, and its log says so. Nor the few hundred MB that
every desktop keeps there, nor an integrated GPU, which has no other memory.

## How to fix
Let the load fail instead, then ask for fewer bytes:
- Windows: NVIDIA control panel, Manage 3D settings, "CUDA - Sysmem Fallback Policy": prefer no fallback
- LM Studio: "Limit weight offload to dedicated GPU memory" in the hardware settings
- llama.cpp: drop `-ngl`, so that it places what fits; shorten `-c`; `-ctk q8_0 -ctv q8_0`; remove
  `GGML_CUDA_ENABLE_UNIFIED_MEMORY` from the environment
- Ollama: a smaller `num_ctx`, `OLLAMA_KV_CACHE_TYPE=q8_0`; `ollama ps` says 100% GPU, as it counts what it asked for
- vLLM: a lower `--gpu-memory-utilization`; SGLang: a lower `--mem-fraction-static`
- Transformers: `max_memory={0: "20GiB", "cpu": "64GiB"}` with `device_map="auto"`, or a 4-bit `quantization_config`

## Safety
Without the fallback, programs that relied on it run out of memory instead.
"""

import re

from unslow.facts.account import Topic
from unslow.facts.values import GIB, MIB, Known, first_known
from unslow.think.case.device import candidate_gpus, is_integrated, is_integrated_name
from unslow.think.case.narrative import amount_bytes
from unslow.think.case.view import CaseView
from unslow.think.case.vram import MOVABLE
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Route, Suspected, all_of, finding
from unslow.think.plan.free_memory import spill_remedies
from unslow.think.report import Evidence

LEAST_FETCHED, LEAST_SHARE = 32 * MIB, 0.01
"""Bytes per token, and part of the weights: a healthy GPU receives some kilobytes, a token and its position."""
LEAST_BYTES = GIB  # A desktop and pinned buffers take less
ROOMY = 1 / 8  # Of a GPU's memory: with this much free no driver lends; Windows keeps up to a tenth back from programs
BEYOND_FREE = GIB // 2
"""Bytes more than were free before: other processes seldom free more meanwhile, and a desktop varies by less."""
_OF_ALL = re.compile(r"(\d{1,4}(?:\.\d+)?)\s?(?:gi?b)?\s?(?:/|of)\s?\d{1,4}(?:\.\d+)?\s?gi?b", re.IGNORECASE)
"""An amount of memory in use and all that there is, such as `0.3/15.9 GB`."""
_OF_A_GPU = re.compile(r"gpu|video|graphics|vram|gtt|sysmem|system memory fallback", re.IGNORECASE)


def integrated_gpu(case: CaseView) -> Absent | None:
    """A GPU without memory of its own always uses the system's."""
    gpus = case.gpus.usable
    is_shared = case.gpus.is_apple or (gpus and all(is_integrated(gpu) for gpu in gpus))
    return Absent("the GPU has no memory of its own: it always uses the system's") if is_shared else None


def lent_memory_counters(case: CaseView) -> Found | Absent | None:
    """The driver's counters of system memory lent to the GPU, less what the runtime itself keeps there."""
    cards = [(n, g) for n, g in case.gpus.places if g in case.gpus.in_use and not is_integrated(g)]
    names = ("shared_used_bytes", "gtt_used_bytes")
    facts = [(f"machine.gpus.{place}.{name}", gpu, getattr(gpu, name)) for place, gpu in cards for name in names]
    counters = [(path, gpu, float(fact.value)) for path, gpu, fact in facts if isinstance(fact, Known)]
    if not counters:
        return None
    path, gpu, used = max(counters, key=lambda counter: counter[2])
    free, total = gpu.vram_free_bytes.get(), gpu.vram_total_bytes.get()
    # Host buffers that a GPU can read, which drivers count as lent; mapped files are not
    own = float(sum(b.bytes for b in case.vram.all_buffers if not b.on_gpu and not b.device.endswith("_Mapped")))
    if used < LEAST_BYTES:
        return Absent(f"the GPU uses {used / GIB:.1f} GiB of system memory, as on any desktop")
    if own < LEAST_BYTES and case.placement.cpu_computes:
        return Absent("the runtime itself left part of the model on the CPU")
    if used - own < LEAST_BYTES:
        return Absent(f"the runtime itself keeps {own / GIB:.1f} of the {used / GIB:.1f} GiB there")
    if free is not None and free >= max(LEAST_BYTES, LEAST_BYTES if total is None else ROOMY * total):
        return Absent(f"{free / GIB:.1f} GiB of the GPU's own memory are free: nothing had to move")
    because = f"the driver has spilled {(used - own) / GIB:.1f} GiB of GPU memory into system memory"
    cited = case.cite(path, f"{LEAST_BYTES / GIB:.0f} GiB at most on a healthy machine")
    return _spill(case, because, cited)


def link_traffic(case: CaseView) -> Found | None:
    """What crosses PCIe per token, where the whole model is on the GPU and nothing else is known to use the link."""
    received, rate = case.telemetry.gpu_figure("pcie_receive_bytes_per_s"), case.speed.measured_rate
    others = case.vram.other_processes and not case.vram.may_move
    fetched = case.runtime.placement.cpu_offload_bytes.value_or(0) > 0  # by the engine itself, as it was told
    if received is None or not isinstance(rate, Known) or others or fetched:
        return None
    if case.placement.cpu_computes is not False:
        return None
    per_token = received.mean / rate.value
    if per_token < max(LEAST_FETCHED, LEAST_SHARE * case.memory.weights_bytes):
        return None
    words = f"{per_token / MIB:.0f} MiB cross PCIe per token"
    because = f"{words}, though all layers are on the GPU: the driver has spilled part of them into system memory"
    cited = case.telemetry.cite("pcie_receive_bytes_per_s", words, "next to nothing")
    return _spill(case, because, cited)


def movable_memory(case: CaseView) -> Found | None:
    """A setting lets the driver move GPU memory, all layers count as on the GPU, and they need more than was free."""
    if not case.vram.may_move or case.placement.cpu_computes is not False:
        return None
    demand = case.memory.demand()
    if demand.asked <= demand.available:
        return None
    sizes = f"{demand.asked / GIB:.1f} GiB needed, {demand.available / GIB:.1f} GiB free"
    because = f"{MOVABLE} lets the driver spill what does not fit into system memory: {sizes}"
    return _spill(case, because, case.cite("runtime.process.environment", sizes))


def allocated_beyond_gpu(case: CaseView) -> Found | None:
    """The log shows more allocated on a GPU than it has; or than was free, where it is slow and the driver may lend."""
    may_lend = not case.system.has_linux_drivers and case.speed.is_slow
    for device in case.gpus.seen_by_runtime:
        held = sum(b.bytes for b in case.vram.all_buffers if b.on_gpu and b.device == device.name)
        cards = candidate_gpus(device, case.gpus.usable)
        total = first_known(device.total_bytes, *(card.vram_total_bytes for card in cards if len(cards) == 1)).get()
        free, name = device.free_bytes.get(), device.description or device.name
        room = f"it has {total / GIB:.1f} GiB" if total and held > total else ""
        if may_lend and free and held > free + BEYOND_FREE:
            room = room or f"{free / GIB:.1f} GiB were free"
        if not room or device.integrated.get() or is_integrated_name(device.description):
            continue
        because = f"{held / GIB:.1f} GiB were allocated on {name}, but {room}: the rest is in system memory"
        return _spill(case, because, case.cite("runtime.memory.buffers", room))
    return None


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A person says that shared GPU memory is in use, as Task Manager shows it, and more than any desktop has."""
    remarks = [(r, _OF_ALL.search(r.text)) for r in case.narrative.remarks_on(Topic.SHARED_MEMORY_USED)]
    amounts = [(r, float(used[1]) * 1e9 if used else amount_bytes(r.text) or None) for r, used in remarks]
    said = [remark for remark, amount in amounts if amount is None or amount >= LEAST_BYTES]
    is_denied = any(r.topic is Topic.SHARED_MEMORY_USED and r.denied for r in case.account.remarks.get() or ())
    if not said or is_denied:
        return None
    if not (case.system.is_windows or any(_OF_A_GPU.search(remark.text) for remark in said)):
        return Suspected(said[0].text, "machine.gpus.0.shared_used_bytes", CAUSE.ask)
    because = f"the driver has spilled part of the model into system memory: {said[0].text}"
    return _spill(case, because, case.narrative.cite_remarks(said))


def idle_memory_bus(case: CaseView) -> Found | None:
    """A person on Windows sees a full GPU that is busy and hardly reads its own memory: it waits for PCIe."""
    said, full = case.narrative.remarks_on(Topic.MEMORY_BUS_IDLE), case.narrative.remarks_on(Topic.VRAM_FULL)
    if not said or not case.system.is_windows or not (full or isinstance(case.account.slowdown, Known)):
        return None
    because = f"the GPU is busy but hardly reads its own memory, as when the driver has spilled part: {said[0].text}"
    return _spill(case, because, case.narrative.cite_remarks((*said[:1], *full[:1])))


def free_vram(case: CaseView) -> Absent | None:
    """A GPU with gigabytes of its own memory free has nothing to move."""
    free = case.vram.least_free_bytes
    if free is None or free < LEAST_BYTES:
        return None
    return Absent(f"{free / GIB:.1f} GiB of the GPU's own memory are free: nothing had to move")


def linux_driver(case: CaseView) -> Absent | None:
    """NVIDIA's driver for Linux lends nothing, unless the runtime asks for memory that may move."""
    environment, vendors = case.runtime.process.environment.get(), {gpu.vendor.get() for gpu in case.gpus.in_use}
    if not case.system.has_linux_drivers or vendors != {"NVIDIA"} or environment is None or MOVABLE in environment:
        return None
    return Absent("on Linux this driver lets an allocation fail rather than lend system memory")


def _spill(case: CaseView, because: str, shown_by: Evidence | Citations) -> Found:
    cure, fixes = spill_remedies(case)
    return finding(case, because, shown_by, cure=cure, fixes=fixes)


CAUSE = Cause(
    title="The driver spills GPU memory into system memory",
    phase="decode",
    needs=all_of(
        "machine.gpus.0.shared_used_bytes or machine.gpus.0.gtt_used_bytes or machine.gpus.0.vram_free_bytes or "
        "run.telemetry or runtime.process.environment or runtime.memory.buffers or account.remarks"
    ),
    routes=(
        Route("counted", integrated_gpu), Route("measured", lent_memory_counters), Route("measured", link_traffic),
        Route("counted", movable_memory), Route("log", allocated_beyond_gpu), Route("told", said_by_person),
        Route("told", idle_memory_bus), Route("measured", free_vram), Route("counted", linux_driver),
    ),
    on_gpu=True,
    explains=("weights_spill_to_ram", "fits_on_one_gpu", "multi_gpu_link_bound"),
    gpu_only=True,
    ask="during decode: {gpu_shared_memory}",
)  # fmt: skip

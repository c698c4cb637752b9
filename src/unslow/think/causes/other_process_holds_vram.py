"""Another process holds the GPU memory that the model needs.

## Why it is slow
The runtime places only what fits into the memory that is free when it loads. What a browser, a game, an image
generator or a second model holds at that moment is out of reach for good: layers go to the CPU, or the load fails.
Closing the program later helps only after the runtime has loaded the model again.

Guides say that the runtime then moves layers back and forth, but it places them once and computes the rest on the CPU.

## How to confirm
`nvidia-smi` lists the processes with their memory (AMD: `rocm-smi --showpids`; Windows: Task Manager, Details, with the
column "Dedicated GPU memory" added). Together the other processes hold at least what the model lacks. Two loads of
the same model in one log, with gigabytes less free before the slow one, show the same.

## What it is not
The runtime's own child processes (Ollama's llama-server, vLLM's workers). Nor processes that hold less than the
shortfall.

## How to fix
Close them, or start them after the model, then load the model again:
- llama.cpp: restart llama-server; Ollama: `ollama stop MODEL`; LM Studio: `lms unload --all`, then load
- a second model in the same Ollama: `OLLAMA_MAX_LOADED_MODELS=1`
- vLLM: it refuses to start where less is free than `--gpu-memory-utilization` asks for; lower it to match what is free
- Transformers: end the other program, then start yours again; an open notebook keeps its model in memory
- connect the display to another or the integrated GPU; turn off hardware acceleration in the browser

## Safety
Ending a program loses its unsaved work. This tool names it and never ends it.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.device import device_of, has_far_more_bandwidth
from unslow.think.case.engine import LEAST_SHARE, free_of, layers_of
from unslow.think.case.group import if_known
from unslow.think.case.narrative import amount_bytes
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding

LEAST_UNACCOUNTED = 2 * GIB  # The driver and a desktop take less
FILLED = 0.5  # Of a GPU's memory: with this much taken, a model that fills a card has no room there
MOST_OF_A_DESKTOP = 0.25  # Of a GPU's memory: a display and a driver take less
FIND = Knob.OTHER_PROCESS.to(None, "find it while it is slow ({gpu_holders}), close it, and load the model again")
LATER = Knob.OTHER_PROCESS.to(None, "close it or start it after the model")
UNSAVED = "unsaved work"


def two_loads(case: CaseView) -> Found | None:
    """Of two loads of the model in one log, the one with far less memory free put fewer layers on the GPU."""
    pair = case.engine.load_short_of_memory
    if pair is None:
        return None
    poor, rich = pair
    gone = free_of(rich) - free_of(poor)
    more, less = (f"{free_of(load) / GIB:.1f} GiB free put {layers_of(load)}" for load in (rich, poor))
    because = f"a load with {more} on the GPU, one with {less}: something else held {gone / GIB:.1f} GiB"
    loads = [case.engine.cite_load(load) for load in pair]
    return finding(case, because, loads, cure=Cure(vram_bytes=free_of(rich)), fixes=[FIND])


def free_at_start(case: CaseView) -> Found | None:
    """Memory that was free when the runtime started was gone when it loaded the model, which then ran short."""
    free, asked = case.runtime.memory.available_bytes.get(), case.runtime.memory.asked_bytes.get()
    failed = case.runtime.memory.allocation_failure.get()
    started = float(sum(device.free_bytes.get() or 0 for device in case.gpus.seen_by_runtime))
    if free is None or asked is None or not free < asked <= started or started - free < max(GIB, LEAST_SHARE * started):
        return None
    if not failed and not case.placement.split and not case.placement.layers_on_host:
        return None  # the model did not need it
    because = (
        f"{started / GIB:.1f} GiB of GPU memory were free when the runtime started, {free / GIB:.1f} GiB when it "
        f"loaded the model, which needs {asked / GIB:.1f} GiB: something took {(started - free) / GIB:.1f} GiB"
    )
    cited = case.cite("runtime.memory.available_bytes", f"{started / GIB:.1f} GiB at the start")
    return finding(case, because, cited, case.vram.cite_free_before_load, fixes=[Remedy(FIND, None, UNSAVED)])


def faster_gpu_taken(case: CaseView) -> Found | None:
    """Another process fills the fastest GPU, so the model is on a slower one."""
    own = case.gpus.holding_model
    for gpu in (gpu for gpu in case.gpus.usable if own and gpu not in own):
        total, others = gpu.vram_total_bytes.get(), case.vram.sized_processes(gpu)
        held = sum(size for _, size in others)
        faster = all(has_far_more_bandwidth(device_of(gpu), device_of(one)) for one in own)
        if not total or held <= FILLED * total or not faster:
            continue
        process, name, slower = others[0][0], gpu.name.get() or "the faster GPU", own[0].name.get() or "a slower GPU"
        cited = case.vram.cite_vram_of(process, f"{name} is the faster GPU")
        move = Knob.OTHER_PROCESS.to(process.pid, "move it to the slower GPU, or close it")
        holds = f"{case.vram.label_process(process)} holds {held / GIB:.1f} GiB of {name}"
        return finding(case, f"{holds}, so the model is on {slower}", cited, fixes=[move])
    return None


def whole_model_on_gpu(case: CaseView) -> Absent | None:
    """Nothing is missing where the load succeeded and left no layer on the CPU."""
    if case.vram.is_short:
        return None
    demand, total, others = if_known(case.memory.demand), case.vram.total_bytes, case.vram.others_bytes
    if total and others and (demand.asked if demand else case.memory.weights_bytes) > total - others:
        case.need("runtime.process.environment")  # beside them, only a driver that lends has room
    return Absent("the whole model is on the GPU")


def process_list(case: CaseView) -> Found | Absent | None:
    """The memory that the driver lists for other processes, against what the model lacks."""
    if not case.vram.is_short:
        return None
    failed = case.runtime.memory.allocation_failure.get() is not None
    if failed and not case.vram.allocation_failed:
        return Absent("the allocation that failed was in host memory")
    others = [p for p in case.vram.other_processes if p.vram_bytes.get() != 0]
    held, demand = case.vram.held_by(others, CAUSE.ask), case.memory.demand()
    left, total = demand.available, case.vram.total_bytes
    if total and case.vram.driver_lends:  # lent memory counts as free: at most what others leave of the GPUs' own
        left = min(left, total - held)
    lacking = demand.asked + demand.margin - left
    if lacking <= 0:
        case.vram.need_process_lists() if case.vram.driver_lends else case.memory.need_room()
        return Absent("the GPU has room for the whole model")
    case.vram.need_process_lists()
    case.vram.need_own_process(CAUSE.ask)
    if held < lacking:
        return Absent(f"other processes hold {held / GIB:.1f} GiB; the model needs {lacking / GIB:.1f} GiB more")
    names = f"{', '.join(map(case.vram.label_with_size, others[:3]))} hold{'s' if len(others) == 1 else ''}"
    because = f"{names} {held / GIB:.1f} GiB of GPU memory; the model needs {lacking / GIB:.1f} GiB more"
    reference = f"{lacking / GIB:.1f} GiB lacking"
    cited = [case.vram.cite_vram_of(p, reference) for p in others[:3] if isinstance(p.vram_bytes, Known)]
    if not all(isinstance(p.vram_bytes, Known) for p in others):  # all that is in use, where the driver lacks sizes
        cited += [case.cite(f"machine.gpus.{n}.vram_used_bytes", reference) for n in case.gpus.places_in_use]
    close = Knob.OTHER_PROCESS.to(others[0].pid, "close it or start it after the model, then restart the runtime")
    cure = None if failed else Cure(vram_bytes=max(0.0, left) + held)
    fixes, free = [Remedy(close, cure, UNSAVED)], case.vram.cite_free_before_load
    return finding(case, because, cited, free, cure=cure, fixes=fixes)


def unaccounted_memory(case: CaseView) -> Found | None:
    """GPU memory that the runtime's own account at its end calls neither free nor its own, beside a split model."""
    split, devices = case.placement.split, enumerate(case.runtime.placement.devices.get() or [])
    sizes = {f"runtime.placement.devices.{n}.unaccounted_bytes": d.unaccounted_bytes.get() or 0 for n, d in devices}
    fact = max(sizes, key=lambda path: sizes[path], default="")
    held = sizes.get(fact, 0)
    if not split or held < LEAST_UNACCOUNTED:
        return None
    because = f"{split.words}, and {held / GIB:.1f} GiB of GPU memory did not belong to the runtime"
    return finding(case, because, fact, split.fact, fixes=[Remedy(FIND, None, UNSAVED)])


def taken_before_load(case: CaseView) -> Found | None:
    """A large part of the memory was in use before the runtime loaded anything, and the model was split."""
    split, taken, demand = case.placement.split, case.vram.most_taken_before_load, if_known(case.memory.demand)
    if not split or not taken:
        return None
    fact, total, held = taken
    if held < max(LEAST_UNACCOUNTED, MOST_OF_A_DESKTOP * total, demand.lacking if demand else 0.0):
        return None
    cure = Cure(vram_bytes=case.vram.available_bytes + held)
    in_use = f"{held / GIB:.1f} of {total / GIB:.1f} GiB of GPU memory were in use before the load"
    cited, fixes = case.cite(fact, f"of {total / GIB:.1f} GiB"), [Remedy(FIND, cure, UNSAVED)]
    return finding(case, f"{in_use}, and {split.words}", cited, split.fact, cure=cure, fixes=fixes)


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A user blames another program; it counts only with the gigabytes that it holds."""
    said, split = case.narrative.remarks_on(Topic.OTHER_VRAM_USER), case.placement.split
    if not said:
        return None
    held, cited = max(amount_bytes(remark.text) for remark in said), case.narrative.cite_remarks(said)
    if not split or held < GIB:
        return Suspected(said[0].text, "machine.gpus.0.processes", CAUSE.ask)
    because = f"{split.words}, while another process holds {held / GIB:.1f} GiB of GPU memory: {said[0].text}"
    return finding(case, because, split.fact, cited, fixes=[Remedy(LATER, None, UNSAVED)])


CAUSE = Cause(
    title="Another process holds GPU memory",
    phase="decode",
    needs=all_of(
        "runtime.placement.gpu_layers or runtime.memory.vram_share or runtime.memory.allocation_failure or "
        "machine.gpus.0.processes or runtime.history.loads"
    ),
    routes=(
        Route("log", two_loads), Route("log", free_at_start), Route("measured", faster_gpu_taken),
        Route("counted", whole_model_on_gpu), Route("measured", process_list), Route("log", unaccounted_memory),
        Route("log", taken_before_load), Route("told", said_by_person),
    ),
    on_gpu=True,
    fails_load=True,
    gpu_only=True,
    explains=(
        "weights_spill_to_ram", "memory_allocation_failed", "memory_estimate_too_careful",
        "driver_spills_to_shared_memory",
    ),
    ask="while it is slow: {gpu_holders}",
)  # fmt: skip

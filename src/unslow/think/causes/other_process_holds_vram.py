"""Another program holds the GPU memory that the model lacks.

## Why it is slow
The runtime places only what fits into the memory that is free when it loads. What a browser, a game, an image
generator or a second model holds at that moment is missing for good: layers go to the CPU, or the load fails. Closing
the program later helps only after the runtime has loaded the model again.

Guides say that the runtime then moves layers back and forth, but it places them once, and computes on the CPU what has
no room.

## How to confirm
`nvidia-smi` lists the processes with their memory (AMD: `rocm-smi --showpids`; Windows: Task Manager, Details, with the
column "Dedicated GPU memory" added). Together the strangers hold at least
what the model lacks. Two loads of the same model in one log, with gigabytes less free before the slow one, show the
same.

## What it is not
The runtime's own children (Ollama's llama-server, vLLM's workers), which are no strangers; nor strangers that hold
less than the model lacks.

## How to fix
Close them, or start them after the model, then load the model again:
- llama.cpp: restart llama-server; Ollama: `ollama stop MODEL`; LM Studio: `lms unload --all`, then load
- a second model in the same Ollama: `OLLAMA_MAX_LOADED_MODELS=1`
- vLLM: it refuses to start where less is free than `--gpu-memory-utilization` asks for; lower it to plan with the rest
- Transformers: end the other program, then start yours again; a notebook that was left open holds its model
- the display: on another GPU or the processor's own; a browser: hardware acceleration off

## Safety
Ending a program loses its unsaved work. This tool names it and never ends it.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.machine import GpuProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known, MissingFactError, Unknown
from unslow.think.case.demand import must_have_room, read_demand
from unslow.think.case.gpus import device_of, has_far_more_bandwidth, vram_total_bytes
from unslow.think.case.narrative import amount_bytes, remarks_on
from unslow.think.case.placement import driver_lends, held_by_others, layers_left_on_host, memory_before, seen_split
from unslow.think.case.runtime import LEAST_SHARE, free_of, layers_of, robbed_load
from unslow.think.case.vram import (
    available_vram_bytes,
    failed_on_gpu,
    gpus_held,
    gpus_of,
    other_gpu_processes,
    seen_gpus,
)
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import (
    cite,
    cite_remarks,
    free_before_load,
    if_known,
    must_list_processes,
    must_tell_own,
    need,
    places_used,
)
from unslow.think.report import Evidence

LEAST_UNACCOUNTED = 2 * GIB  # The driver and a desktop take less
FILLED = 0.5  # Of a GPU's memory: with so much of it taken, a model that fills a card has no room there
MOST_OF_A_DESKTOP = 0.25  # Of a GPU's memory: a display and a driver take less
_FIND_IT = Remedy(
    Knob.OTHER_PROCESS.to(None, "find it ({gpu_holders}), close it, and load the model again"), None, "unsaved work"
)


def _by_list(case: Case) -> Found | Absent:
    """What strangers have against what the model lacks."""
    failed = case.runtime.allocation_failure.value_or(None) is not None
    if not failed and not layers_left_on_host(case) and not driver_lends(case):
        # one that counts as on a GPU where strangers leave it no room: a driver lends, if the settings let it
        total, held = vram_total_bytes(case), sum(p.vram_bytes.value_or(0) for p in other_gpu_processes(case))
        reckoned = if_known(read_demand, case)
        asked = reckoned.asked if reckoned else case.model.weights_bytes.value_or(0)
        if total and held and asked > total - held:
            need(case, "runtime.environment")
        return Absent("the whole model is on the GPU")
    if failed and not failed_on_gpu(case):
        return Absent("it was memory of the host that could not be allocated")
    others = [p for p in other_gpu_processes(case) if p.vram_bytes.value_or(1)]
    held = held_by_others(case, others, CAUSE.ask)
    demand, total = read_demand(case), vram_total_bytes(case)
    # memory that may move is counted with the host's: then what the GPU itself has is what strangers leave of it
    left = min(demand.available, total - held) if total and driver_lends(case) else demand.available
    lacking = demand.asked + demand.margin - left
    if lacking <= 0:
        must_list_processes(case) if driver_lends(case) else must_have_room(case)
        return Absent("nothing is lacking on the GPU")
    must_list_processes(case)
    must_tell_own(case, CAUSE.ask)
    if held < lacking:
        return Absent(f"others hold {held / GIB:.1f} GiB, {lacking / GIB:.1f} GiB are lacking")
    names = ", ".join(f"{p.name.value_or('unnamed')} (pid {p.pid}{_size(p)})" for p in others[:3])
    missing = f"{lacking / GIB:.1f} GiB lacking"
    # What is in use on the runtime's GPUs, where the driver tells no sizes of processes
    in_use = [] if all(_size(p) for p in others) else places_used(case)
    cure = None if failed else Cure(vram_bytes=max(0.0, left) + held)
    close = Knob.OTHER_PROCESS.to(others[0].pid, "close it or start it after the model, then restart the runtime")
    return Found(
        because=f"{names} hold{'s' if len(others) == 1 else ''} {held / GIB:.1f} GiB of GPU memory; the model lacks "
        f"{lacking / GIB:.1f} GiB",
        evidence=(
            *(_evidence(p.pid, p.vram_bytes, missing) for p in others[:3] if _size(p)),
            *(cite(case, f"machine.gpus.{place}.vram_used_bytes", missing) for place in in_use),
            *free_before_load(case),
        ),
        cure=cure,
        remedies=(Remedy(close, cure, "unsaved work"),),
    )


def _size(process: GpuProcess) -> str:
    held = process.vram_bytes
    return f", {held.value / GIB:.1f} GiB" if isinstance(held, Known) else ""


def _by_loads(case: Case) -> Found | None:
    """Two loads of one model, and far less free before the one that kept fewer layers on the GPU."""
    robbed = robbed_load(case)
    if robbed is None:
        return None
    poor, rich, cure = robbed.poor, robbed.rich, Cure(vram_bytes=free_of(robbed.rich))
    seen = [(load, f"{load.at} {free_of(load) / GIB:.1f} GiB free, {layers_of(load)}".strip()) for load in robbed]
    find = Knob.OTHER_PROCESS.to(None, "find it while it is slow ({gpu_holders}), close it, and load the model again")
    return Found(
        because=f"of two loads of the model one found {free_of(rich) / GIB:.1f} GiB free and put {layers_of(rich)} on "
        f"the GPU, the other {free_of(poor) / GIB:.1f} GiB and {layers_of(poor)}: something else held "
        f"{robbed.gone / GIB:.1f} GiB",
        evidence=tuple(
            Evidence(fact="runtime.loads", value=words, reference=None, origin="reported", source=load.source)
            for load, words in seen
        ),
        cure=cure,
        remedies=(Remedy(find, cure),),
    )


def _by_two_readings(case: Case) -> Found | None:
    """More was free when the runtime started than when it loaded, and what went is what the model lacked."""
    available, wanted = case.runtime.available_bytes, case.runtime.asked_bytes
    if not isinstance(available, Known) or not isinstance(wanted, Known):
        return None
    started = float(sum(d.free_bytes.value_or(0) for d in seen_gpus(case)))
    loaded, asked = float(available.value), float(wanted.value)
    gone = started - loaded
    if not loaded < asked <= started or gone < max(GIB, LEAST_SHARE * started):
        return None
    # Memory that went and was not missed is no cause: the load failed or left something on the host
    if not case.runtime.allocation_failure.value_or(None) and not seen_split(case) and not layers_left_on_host(case):
        return None
    return Found(
        because=f"{started / GIB:.1f} GiB of GPU memory were free when the runtime started and {loaded / GIB:.1f} GiB "
        f"when it loaded the model, which asks for {asked / GIB:.1f} GiB: something took {gone / GIB:.1f} GiB between",
        evidence=(
            cite(case, "runtime.available_bytes", f"{started / GIB:.1f} GiB at the start"),
            *free_before_load(case),
        ),
        remedies=(_FIND_IT,),
    )


def _by_better_gpu(case: Case) -> Found | None:
    """A stranger fills the fast GPU, and the model had to go to a slow one."""
    own = gpus_held(case)
    for gpu in () if len(gpus_of(case)) < 2 or not own else gpus_of(case):  # noqa: PLR2004 (several)
        others = sorted(gpu.processes.value_or([]), key=lambda p: -p.vram_bytes.value_or(0))
        held = sum(p.vram_bytes.value_or(0) for p in others)
        full = held > FILLED * (gpu.vram_total_bytes.value_or(0) or held * 2)
        if gpu not in own and full and all(has_far_more_bandwidth(device_of(gpu), device_of(one)) for one in own):
            name, process = gpu.name.value_or("the faster GPU"), others[0]
            return Found(
                because=f"{process.name.value_or('another program')} (pid {process.pid}) holds {held / GIB:.1f} GiB "
                f"of {name}, so the model is on {own[0].name.value_or('a slower GPU')}",
                evidence=(_evidence(process.pid, process.vram_bytes, f"{name} is the faster GPU"),),
                remedies=(Remedy(Knob.OTHER_PROCESS.to(process.pid, "move it to the slower GPU, or close it")),),
            )
    return None


def _by_account(case: Case) -> Found | None:
    """By the runtime's own account at its end: memory in use that is not its own, beside layers that lacked room."""
    split, devices = seen_split(case), case.runtime.devices.value_or([])
    index = max(range(len(devices)), key=lambda i: devices[i].unaccounted_bytes.value_or(0), default=0)
    held = devices[index].unaccounted_bytes.value_or(0) if devices else 0
    if not split or held < LEAST_UNACCOUNTED:
        return None
    return Found(
        because=f"{split.words}, and {held / GIB:.1f} GiB of the GPU's memory were not the runtime's own",
        evidence=(cite(case, f"runtime.devices.{index}.unaccounted_bytes"), cite(case, split.fact)),
        remedies=(_FIND_IT,),
    )


def _by_share(case: Case) -> Found | None:
    """A large part of the memory was gone before the runtime loaded anything, and the model then lacked room."""
    split = seen_split(case)
    devices = case.runtime.devices.value_or([])
    seen = {n: memory for n, d in enumerate(devices) if (memory := memory_before(case, d))}
    index = max(seen, key=lambda n: seen[n].gone, default=None)
    if not split or index is None:
        return None
    total, held = seen[index].total, seen[index].gone
    demand = if_known(read_demand, case)
    lacking = demand.lacking if demand else 0.0
    if held < max(LEAST_UNACCOUNTED, MOST_OF_A_DESKTOP * total, lacking):
        return None
    cure = Cure(vram_bytes=available_vram_bytes(case) + held)
    return Found(
        because=f"{held / GIB:.1f} of {total / GIB:.1f} GiB of GPU memory were in use before the runtime loaded "
        f"anything, and {split.words}",
        evidence=(
            cite(case, f"runtime.devices.{index}.free_bytes", f"of {total / GIB:.1f} GiB"),
            cite(case, split.fact),
        ),
        cure=cure,
        remedies=(_FIND_IT._replace(cure=cure),),
    )


def _by_words(case: Case) -> Found | Suspected | None:
    """Somebody who names the program and its gigabytes has looked; one who only blames it has not."""
    said = remarks_on(case, Topic.OTHER_VRAM_USER)
    if not said:
        return None
    split = seen_split(case)
    held = max(amount_bytes(remark.text) for remark in said)
    if not split or held < GIB:
        return Suspected(said[0].text, "machine.gpus.0.processes", CAUSE.ask)
    return Found(
        because=f"{split.words}, while another program holds {held / GIB:.1f} GiB of its memory: {said[0].text}",
        evidence=(cite(case, split.fact), *cite_remarks(case, said)),
        remedies=(Remedy(Knob.OTHER_PROCESS.to(None, "close it or start it after the model"), None, "unsaved work"),),
    )


def _evidence(pid: int, vram: Known[int] | Unknown, reference: str) -> Evidence:
    if isinstance(vram, Unknown):
        raise MissingFactError(vram)
    return Evidence(
        fact=f"machine.gpus.processes.{pid}.vram_bytes", value=vram.value, reference=reference,
        origin=str(vram.origin), source=vram.source,
    )  # fmt: skip


CAUSE = Cause(
    title="Another process holds GPU memory",
    phase="decode",
    needs=(
        (
            "runtime.gpu_layers",
            "runtime.vram_share",
            "runtime.allocation_failure",
            "machine.gpus.0.processes",
            "runtime.loads",
        ),
    ),
    check=check_by(_by_loads, _by_two_readings, _by_better_gpu, _by_list, _by_account, _by_share, _by_words),
    on_gpu=True,
    fails_load=True,
    gpu_only=True,
    explains=(
        "weights_spill_to_ram",
        "memory_allocation_failed",
        "memory_estimate_too_careful",
        "driver_spills_to_shared_memory",
    ),
    ask="while it is slow: {gpu_holders}",
)

"""Another program holds the GPU memory that the model lacks.

## Why it is slow
The runtime places only what fits into the memory that is free when it loads. What a browser, a game, an image
generator or a second model holds at that moment is missing for good: layers go to the CPU, or the load fails. Closing
the program later helps only after the runtime has loaded the model again.

Guides say that the runtime then moves layers back and forth, but it places them once, and computes on the CPU what has
no room.

## How to confirm
`nvidia-smi` lists the processes with their memory (AMD: `rocm-smi --showpids`). Together the strangers hold at least
what the model lacks. Two loads of the same model in one log, with gigabytes less free before the slow one, show the
same. The runtime's own children are no strangers.

## How to fix
Close them, or start them after the model, then load the model again:
- llama.cpp: restart llama-server; Ollama: `ollama stop MODEL`; LM Studio: `lms unload --all`, then load
- a second model in the same Ollama: `OLLAMA_MAX_LOADED_MODELS=1`
- vLLM: it refuses to start where less is free than `--gpu-memory-utilization` asks for; lower it to plan with the rest
- the display: on another GPU or the processor's own; a browser: hardware acceleration off

## Safety
Ending a program loses its unsaved work. This tool names it and never ends it.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.runtime import PastLoad, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import Known, MissingFactError, Unknown
from unslow.think.adapt.account import amount_bytes, remarks_on
from unslow.think.adapt.demand import read_demand
from unslow.think.adapt.hardware import is_much_faster, vram_total_bytes
from unslow.think.adapt.placement import layers_left_on_host, seen_split
from unslow.think.adapt.vram import failed_on_gpu, gpus_held, gpus_of, own_is_known, seen_gpus, strangers
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite, free_before_load, need
from unslow.think.causes._routes import cite_remarks, first_to_decide
from unslow.think.report import Evidence

LEAST_UNACCOUNTED = 2 * GIB
"""The driver and a desktop take less."""
FILLED = 0.5
"""Of a GPU's memory: with so much of it taken, a model that fills a card has no room there."""
LEAST_SHARE = 0.1
MOST_OF_A_DESKTOP = 0.25
"""A display and a driver take less of a GPU's memory than this share."""
"""Of what was free: less comes and goes with any desktop."""


def check(case: Case) -> Found | Absent | Suspected:
    """Hold what strangers have against what the model lacks, or one load against another."""
    return first_to_decide(
        case, _by_loads, _by_two_readings, _by_better_gpu, _by_list, _by_account, _by_share, _by_words
    )


def _by_list(case: Case) -> Found | Absent:
    failed = case.runtime.allocation_failure.value_or(None) is not None
    if not failed and not layers_left_on_host(case) and not _driver_lends(case):
        return Absent("the whole model is on the GPU")
    if failed and not failed_on_gpu(case):
        return Absent("it was memory of the host that could not be allocated")
    others = [p for p in strangers(case) if p.vram_bytes.value_or(0)]
    held = sum(p.vram_bytes.value_or(0) for p in others)
    demand, total = read_demand(case), vram_total_bytes(case)
    # memory that may move is counted with the host's: then what the GPU itself has is what strangers leave of it
    left = min(demand.available, total - held) if total and _driver_lends(case) else demand.available
    lacking = demand.asked + demand.margin - left
    if lacking <= 0:
        return Absent("nothing is lacking on the GPU")
    need(case, "machine.gpus.0.processes")
    if not own_is_known(case):
        need(case, "runtime.pid")
    if held < lacking:
        return Absent(f"others hold {held / GIB:.1f} GiB, {lacking / GIB:.1f} GiB are lacking")
    names = ", ".join(
        f"{p.name.value_or('unnamed')} (pid {p.pid}, {p.vram_bytes.need() / GIB:.1f} GiB)" for p in others[:3]
    )
    available = max(0.0, left)
    return Found(
        because=f"{names} hold{'s' if len(others) == 1 else ''} {held / GIB:.1f} GiB of GPU memory; the model lacks "
        f"{lacking / GIB:.1f} GiB",
        evidence=(
            *(_evidence(p.pid, p.vram_bytes, f"{lacking / GIB:.1f} GiB lacking") for p in others[:3]),
            *free_before_load(case),
        ),
        cure=None if failed else Cure(vram_bytes=available + held),
        remedies=(
            Remedy(
                Knob.OTHER_PROCESS.to(others[0].pid, "close it or start it after the model, then restart the runtime"),
                None if failed else Cure(vram_bytes=available + held),
                "unsaved work",
            ),
        ),
    )


def _driver_lends(case: Case) -> bool:
    """Whether what counts as on the GPU may lie in system memory: it may move, or Windows lent gigabytes."""
    lent = any(gpu.shared_used_bytes.value_or(0) >= GIB for gpu in gpus_of(case))
    return lent or "GGML_CUDA_ENABLE_UNIFIED_MEMORY" in case.runtime.environment.value_or({})


def _by_loads(case: Case) -> Found | None:
    """Two loads of one model, and far less free before the one that kept fewer layers on the GPU."""
    loads = case.runtime.loads.value_or([])
    pairs = [(poor, rich) for poor in loads for rich in loads if _was_robbed(poor, rich)]
    if not pairs:
        return None
    poor, rich = max(pairs, key=lambda pair: _free(pair[1]) - _free(pair[0]))
    gone = _free(rich) - _free(poor)
    return Found(
        because=f"of two loads of the model one found {_free(rich) / GIB:.1f} GiB free and put {_layers(rich)} on the "
        f"GPU, the other {_free(poor) / GIB:.1f} GiB and {_layers(poor)}: something else held {gone / GIB:.1f} GiB",
        evidence=tuple(_load_evidence(load) for load in (poor, rich)),
        cure=Cure(vram_bytes=_free(rich)),
        remedies=(
            Remedy(
                Knob.OTHER_PROCESS.to(None, "find it with `nvidia-smi` while it is slow, and close it"),
                Cure(vram_bytes=_free(rich)),
            ),
        ),
    )


def _by_two_readings(case: Case) -> Found | None:
    """More was free when the runtime started than when it loaded, and what went is what the model lacked."""
    runtime = case.runtime
    started = float(sum(d.free_bytes.value_or(0) for d in seen_gpus(case)))
    loaded, asked = float(runtime.available_bytes.value_or(0)), float(runtime.asked_bytes.value_or(0))
    gone = started - loaded
    if not loaded < asked <= started or gone < max(GIB, LEAST_SHARE * started):
        return None
    return Found(
        because=f"{started / GIB:.1f} GiB of GPU memory were free when the runtime started and {loaded / GIB:.1f} GiB "
        f"when it loaded the model, which asks for {asked / GIB:.1f} GiB: something took {gone / GIB:.1f} GiB between",
        evidence=(
            cite(case, "runtime.available_bytes", f"{started / GIB:.1f} GiB at the start"),
            *free_before_load(case),
        ),
        remedies=(
            Remedy(Knob.OTHER_PROCESS.to(None, "find it with `nvidia-smi`, and close it"), None, "unsaved work"),
        ),
    )


def _by_better_gpu(case: Case) -> Found | None:
    """A stranger fills the fast GPU, and the model had to go to a slow one."""
    own = gpus_held(case)
    for gpu in () if len(gpus_of(case)) < 2 or not own else gpus_of(case):  # noqa: PLR2004 (several)
        others = sorted(gpu.processes.value_or([]), key=lambda p: -p.vram_bytes.value_or(0))
        held = sum(p.vram_bytes.value_or(0) for p in others)
        full = held > FILLED * (gpu.vram_total_bytes.value_or(0) or held * 2)
        if gpu not in own and full and all(is_much_faster(gpu, one) for one in own):
            name, process = gpu.name.value_or("the faster GPU"), others[0]
            return Found(
                because=f"{process.name.value_or('another program')} (pid {process.pid}) holds {held / GIB:.1f} GiB "
                f"of {name}, so the model is on {own[0].name.value_or('a slower GPU')}",
                evidence=(_evidence(process.pid, process.vram_bytes, f"{name} is the faster GPU"),),
                remedies=(Remedy(Knob.OTHER_PROCESS.to(process.pid, "move it to the slower GPU, or close it")),),
            )
    return None


def _was_robbed(poor: PastLoad, rich: PastLoad) -> bool:
    fewer = poor.gpu_layers.value_or(0) < rich.gpu_layers.value_or(0)
    gone = _free(rich) - _free(poor)
    return _same_settings(poor, rich) and fewer and _free(poor) > 0 and gone >= max(GIB, LEAST_SHARE * _free(rich))


def _same_settings(one: PastLoad, other: PastLoad) -> bool:
    model, context = one.model.value_or(""), one.context_length.value_or(0)
    return model == other.model.value_or("") and context == other.context_length.value_or(0)


def _free(load: PastLoad) -> float:
    return float(load.free_bytes.value_or(0))


def _layers(load: PastLoad) -> str:
    return f"{load.gpu_layers.value_or(0)} of {load.layers.value_or('its')} layers"


def _load_evidence(load: PastLoad) -> Evidence:
    return Evidence(
        fact="runtime.loads", value=f"{load.at} {_free(load) / GIB:.1f} GiB free, {_layers(load)}".strip(),
        reference=None, origin="reported", source=load.source,
    )  # fmt: skip


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
        remedies=(
            Remedy(Knob.OTHER_PROCESS.to(None, "find it with `nvidia-smi`, and close it"), None, "unsaved work"),
        ),
    )


def _by_share(case: Case) -> Found | None:
    """A large part of the memory was gone before the runtime loaded anything, and the model then lacked room."""
    split = seen_split(case)
    devices = case.runtime.devices.value_or([])
    gone = {n: d.total_bytes.value_or(0) - d.free_bytes.value_or(0) for n, d in enumerate(devices) if _is_counted(d)}
    index = max(gone, key=lambda n: gone[n], default=None)
    if not split or index is None:
        return None
    total, held = devices[index].total_bytes.value_or(0), gone[index]
    if held < max(LEAST_UNACCOUNTED, MOST_OF_A_DESKTOP * total):
        return None
    return Found(
        because=f"{held / GIB:.1f} of {total / GIB:.1f} GiB of GPU memory were in use before the runtime loaded "
        f"anything, and {split.words}",
        evidence=(
            cite(case, f"runtime.devices.{index}.free_bytes", f"of {total / GIB:.1f} GiB"),
            cite(case, split.fact),
        ),
        remedies=(
            Remedy(Knob.OTHER_PROCESS.to(None, "find it with `nvidia-smi`, and close it"), None, "unsaved work"),
        ),
    )


def _is_counted(device: SeenDevice) -> bool:
    """Whether the runtime says both how much memory the GPU has and how much of it is free."""
    known = isinstance(device.total_bytes, Known) and isinstance(device.free_bytes, Known)
    is_cpu = "cpu" in (device.library, device.name.lower())
    return known and not is_cpu and not device.integrated.value_or(default=False)


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
    check=check,
    on_gpu=True,
    fails_load=True,
    gpu_only=True,
    explains=(
        "weights_spill_to_ram",
        "memory_allocation_failed",
        "memory_estimate_too_careful",
        "driver_spills_to_shared_memory",
    ),
    ask="`nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv` (or all of `nvidia-smi`) while it is slow",
)

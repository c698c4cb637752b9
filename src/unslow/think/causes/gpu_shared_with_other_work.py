"""Another program computes on the same GPU.

## Why it is slow
Kernels of two programs take turns. A stranger's matrix product turned 259 tokens per second into 47 on an H200, with
memory to spare: it is the GPU's time that is shared, not its memory.

Guides say that background programs compete for GPU memory, but one that only holds memory costs nothing once the model
is loaded: it is computing that costs.

## How to confirm
`nvidia-smi pmon -c 5` while tokens are generated shows another process with a share of `sm`; AMD: `rocm-smi
--showpids`; Windows: Task Manager, Details, with the column "GPU" added. The GPU is busy even between requests, all
layers are on it, no throttling, and yet tokens come far slower than its bandwidth allows. In a container the other
process is not listed: look on the host.

## What it is not
A stranger that only holds memory and computes nothing: it costs nothing once the model is loaded.

## How to fix
The same for every runtime: stop the other work, run it at another time, or give each a GPU of its own:
- llama.cpp, Ollama, vLLM, Transformers: `CUDA_VISIBLE_DEVICES=1` (AMD: `ROCR_VISIBLE_DEVICES`) for one of the two
- LM Studio: switch the GPU off for it in the hardware settings
- two models on one GPU: one server that answers for both in turn (Ollama, a llama-server router)
- data-centre GPUs: MIG divides a GPU for good

## Safety
Answers do not change. Ending a program loses its unsaved work. This tool names it and never ends it.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.demand import missing
from unslow.think.case.gpus import FULLY_BUSY, explains, gpu_samples, loaded_gpus
from unslow.think.case.narrative import remarks_on, slow_side_has, told_ratio
from unslow.think.case.placement import layers_left_on_host
from unslow.think.case.prediction import DECODE
from unslow.think.case.slowness import WORTH_NAMING, lost_against, times_slower
from unslow.think.case.vram import gpus_used, other_gpu_processes
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._evidence import ENOUGH_SAMPLES, cite_watched, gpu_figure, in_phase
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks, must_list_processes, must_tell_own, need
from unslow.think.report import Evidence

AT_WORK = 0.3
"""The least that a GPU is busy in any look between requests: what a runtime leaves behind is over sooner."""
ALONE = Cure(alone=True)
_STOPPED = Remedy(Knob.OTHER_LOAD.to(None, "stop it, move it or run it later"), ALONE, "its work")
"""Without its priority: a nice process is not nice to a GPU."""
FAR_BELOW = 1.5  # Times slower than expected: less may be the prediction's own error
_ALONE = {Topic.GPU_COUNT, Topic.CONCURRENCY}  # What words such as "alone" and "both" are taken for
AT_WORK_COUNTED = 0.05
"""Of the time, in kernels of others by the driver's count: that is a reason for any loss that is felt."""
IDLE = 0.02  # Of the time that kernels of others ran: a desktop that draws itself, no more
_HOT = {"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown"}


WATCHED = "run.telemetry"
WORK = "the work of other processes on the GPU"


def _by_words(case: Case) -> Found | Suspected | None:
    """Somebody who runs two things on one GPU and sees each slower than alone has tried it."""
    said = remarks_on(case, Topic.GPU_SHARED)
    if not said:
        return None
    # Nothing but the other program differs between the two sides, and the fast one is not that with it
    slower = [
        c
        for c in case.account.comparisons.value_or(())
        if c.differs and set(c.differs) <= _ALONE and c.now != "fast" and told_ratio(c) >= FAR_BELOW
        if slow_side_has(c, *c.differs) is not False
    ]
    if not slower:
        return Suspected(said[0].text, "machine.gpus.0.processes", CAUSE.ask)
    return Found(
        because=f"several programs compute on one GPU, and each is slower than alone: {said[0].text}",
        evidence=(*cite_remarks(case, said), *(cite_comparison(case, c) for c in slower[:1])),
        remedies=(Remedy(Knob.OTHER_PROCESS.to(None, "give each a GPU of its own, or run them in turn")),),
    )


def _by_pauses(case: Case) -> Found | None:
    """A GPU that is busy between the requests too: whoever does that, it is not the runtime."""
    pause = gpu_figure(case, "busy", "idle")
    if in_phase(case, "decode") is None:  # then what was watched may be the runtime's own work
        return None
    if pause is None or pause.samples < ENOUGH_SAMPLES or pause.low < AT_WORK or case.runtime.busy_slots.value_or(0):
        return None
    theirs, lost = _work_of_others(case), lost_against(case, ALONE)
    if theirs is not None and theirs[1] < IDLE:
        return None  # the driver itself counts nobody else's work: an answer of ours that was cut off may go on
    if lost is None or lost < FAR_BELOW or layers_left_on_host(case):
        return None
    others = other_gpu_processes(case)
    named = f"{others[0].name.value_or('another process')} (pid {others[0].pid})" if others else "a program unseen here"
    words = f"{pause.mean:.0%} busy between requests"
    because = f"{named} keeps the GPU {words}, and tokens come {lost:.1f} times slower than it gives alone"
    listed = (_cited(case, others[0].pid, named),) if others else ()
    return Found(because, (cite_watched(case, "busy", words, "idle"), *listed), ALONE, (_STOPPED,))


def _by_processes(case: Case) -> Found | Absent | Suspected:
    must_list_processes(case)
    must_tell_own(case, CAUSE.ask)
    others = other_gpu_processes(case)
    if not others:
        return Absent("no other process is on the GPU")
    # The runtime's GPU that was busiest while tokens were generated: its place in the list, and how busy it was
    need(case, "run.gpus")
    told = [(place, gpu.busy.value) for place, gpu in gpu_samples(case) if isinstance(gpu.busy, Known)]
    if not told:
        raise missing("how busy the GPU was while tokens were generated", CAUSE.ask)
    place, busy = max(told, key=lambda one: one[1])
    theirs = _work_of_others(case)
    idle = _without_work(case, busy, theirs)
    if idle:
        return Absent(idle)
    need(case, f"run.{DECODE}")
    if layers_left_on_host(case):
        return Absent("part of the model is on the CPU")
    counted = theirs is not None and theirs[1] >= AT_WORK_COUNTED
    lost = times_slower(case, ALONE) if counted else lost_against(case, ALONE)
    if lost is None:
        raise missing("how fast it should be", CAUSE.ask)
    least = WORTH_NAMING if counted else FAR_BELOW
    if lost < least or any(_HOT & set(gpu.event_reasons.value_or([])) for _, gpu in gpu_samples(case)):
        return Absent("the speed is what this GPU gives" if lost < least else "the GPU is slowed down by heat")
    clocks = [gpu.clock_share for gpu in loaded_gpus(case) if gpu.clock_share is not None]
    if theirs is None and clocks and explains(min(clocks), lost):  # to be on the GPU is then no proof of work
        return Suspected("another process is on the GPU, but its low clocks explain the speed", WORK, CAUSE.ask)
    named = f"{others[0].name.value_or('another process')} (pid {others[0].pid})"
    return Found(
        f"{named} is on the same GPU, which is {busy:.0%} busy, and tokens come {lost:.1f} times slower than "
        "this GPU gives for a model that is all on it",
        (_cited(case, others[0].pid, named), cite(case, f"run.gpus.{place}.busy"), cite(case, f"run.{DECODE}"),
         *((cite(case, theirs[0], "none"),) if theirs and theirs[0] != WATCHED else ())),
        ALONE, (_STOPPED,),
    )  # fmt: skip


def _without_work(case: Case, busy: float, theirs: tuple[str, float] | None) -> str:
    """Why nobody else computes on the GPU, by what the driver counts of them, or by pauses; empty where one may."""
    if theirs is not None and theirs[1] < IDLE:
        return f"other processes on the GPU computed for {theirs[1]:.0%} of the time"
    if busy < FULLY_BUSY:
        return f"the GPU is {busy:.0%} busy: nobody else keeps it from the runtime"
    # How busy the GPUs were while the runtime had nothing to do, where somebody looked then
    pause, rests = gpu_figure(case, "busy", "idle"), None
    if pause is not None and pause.samples >= ENOUGH_SAMPLES and in_phase(case, "decode") is not None:
        rests = pause.mean
    elif case.runtime.busy_slots.value_or(None) == 0:
        rests = max((g.busy.value for g in gpus_used(case) if isinstance(g.busy, Known)), default=None)
    if theirs is None and rests is not None and rests < AT_WORK:
        return f"the GPU is {rests:.0%} busy between requests: those who hold its memory do not compute"
    return ""


def _work_of_others(case: Case) -> tuple[str, float] | None:
    """The fact that tells most of the others' work, and how much; None where no driver counts it by process."""
    facts = [(f"run.gpus.{place}.others_busy", gpu.others_busy) for place, gpu in gpu_samples(case)]
    told = [(path, fact.value) for path, fact in facts if isinstance(fact, Known)]
    between = gpu_figure(case, "others_busy", "idle")  # a stranger does not stop between requests
    if not told and between is not None:
        return WATCHED, between.mean
    return max(told, key=lambda one: one[1], default=None)


def _cited(case: Case, pid: int, named: str) -> Evidence:
    listed = next(g.processes for g in case.machine.gpus.need() if any(p.pid == pid for p in g.processes.value_or([])))
    source = listed.source if isinstance(listed, Known) else ""
    return Evidence(
        fact=f"machine.gpus.processes.{pid}", value=named, reference="not the runtime", origin="reported", source=source
    )


CAUSE = Cause(
    title="Another program computes on the same GPU",
    phase="decode",
    needs=(("machine.gpus.0.processes", "run.telemetry", "account.remarks"),),
    check=check_by(_by_pauses, _by_processes, _by_words),
    on_gpu=True,
    explains=("gpu_power_capped", "gpu_held_at_low_clocks", "gpu_thermal_throttling", "cpu_contended"),
    gpu_only=True,
    ask="while it generates: {gpu_users}",
)

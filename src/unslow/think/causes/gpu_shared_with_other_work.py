"""Another program computes on the same GPU.

## Why it is slow
Kernels of two programs take turns. Another program's matrix product turned 259 tok/s into 47 on an H200, with memory
to spare: the two share the GPU's time, not its memory.

Guides say that background programs compete for GPU memory, but one that only holds memory costs nothing once the model
is loaded: computing is what costs.

## How to confirm
`nvidia-smi pmon -c 5` during decode shows another process with a share of `sm`; AMD: `rocm-smi --showpids`; Windows:
Task Manager, Details, with the column "GPU" added. The GPU is busy even between requests, all layers are on it, nothing
throttles it, and yet decode is far slower than its bandwidth allows. In a container the other process is not listed:
look on the host.

## What it is not
A process that only holds memory and computes nothing: it costs nothing once the model is loaded.

## How to fix
The same for every runtime: stop the other work, run it at another time, or give each a GPU of its own:
- llama.cpp, Ollama, vLLM, Transformers: `CUDA_VISIBLE_DEVICES=1` (AMD: `ROCR_VISIBLE_DEVICES`) for one of the two
- LM Studio: switch the GPU off for it in the hardware settings
- two models on one GPU: one server that runs both in turn (Ollama, a llama-server router)
- data-centre GPUs: MIG partitions a GPU permanently

## Safety
Answers do not change. Ending a program loses its unsaved work. This tool names it and never ends it.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.cure import Cure
from unslow.think.case.group import missing
from unslow.think.case.narrative import slow_side_has, told_ratio
from unslow.think.case.speed import DECODE, WORTH_NAMING
from unslow.think.case.telemetry import ENOUGH_SAMPLES, FULLY_BUSY, explains
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding

AT_WORK = 0.3  # Of the time in any look between requests: whatever a runtime leaves behind ends sooner than that
ALONE = Cure(alone=True)
STOP = Remedy(Knob.OTHER_LOAD.to(None, "stop it, move it or run it later"), ALONE, "its work")
"""Without its priority: a nice process is not nice to a GPU."""
FAR_BELOW = 1.5  # Times slower than expected: less may be the prediction's own error
TOGETHER = {Topic.GPU_COUNT, Topic.CONCURRENCY}  # How words such as "alone" and "both" are read
AT_WORK_COUNTED = 0.05
"""Of the time in kernels of others, by the driver's count: enough to explain any loss that is felt."""
MOST_LISTED = 6  # Of the other processes, as evidence
IDLE = 0.02  # Of the time in kernels of others: a desktop that draws itself
OVERHEATED = {"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown"}


def busy_between_requests(case: CaseView) -> Found | None:
    """How busy the GPU is between requests: the runtime has nothing to do then."""
    pause, theirs = case.telemetry.gpu_figure("busy", "idle"), case.telemetry.work_of_others
    if pause is None or pause.samples < ENOUGH_SAMPLES or pause.low < AT_WORK:
        return None
    if case.telemetry.in_phase("decode") is None or case.runtime.scheduling.busy_slots.get():
        return None  # what was sampled may be the runtime's own work
    if theirs is not None and theirs[1] < IDLE:
        return None  # the driver counts no work of others: a request that was cut off may still run
    lost, others = case.speed.lost_against(ALONE), case.vram.other_processes
    if lost is None or lost < FAR_BELOW or case.placement.layers_on_host:
        return None
    named = case.vram.label_process(others[0]) if others else "a program that is not listed here"
    words = f"{pause.mean:.0%} busy between requests"
    return finding(
        case,
        f"{named} keeps the GPU {words}, and decode is {lost:.1f} times slower than it would be alone",
        case.telemetry.cite("busy", words, "idle"),
        *(case.vram.cite_process(process) for process in others[:1]),
        cure=ALONE,
        fixes=[STOP],
    )


def process_list(case: CaseView) -> Found | Absent | Suspected:
    """Other processes on the GPU, their share of its time, how busy it is, and the speed against the expected one."""
    case.vram.need_process_lists()
    case.vram.need_own_process(CAUSE.ask)
    others, theirs = case.vram.other_processes, case.telemetry.work_of_others
    if not others:
        return Absent("no other process is on the GPU")
    case.need("run.gpus")
    samples = case.telemetry.gpu_samples
    readings = [(place, gpu.busy.value) for place, gpu in samples if isinstance(gpu.busy, Known)]
    if not readings:
        raise missing("how busy the GPU was during decode", CAUSE.ask)
    place, busy = max(readings, key=lambda reading: reading[1])
    if idle := _others_idle(case, busy):
        return Absent(idle)
    rate = f"run.{DECODE}" if not isinstance(case.sharing.each_rate, Known) else "run.traffic.each_tokens_per_s"
    case.need(rate)
    if case.placement.layers_on_host:
        return Absent("part of the model is on the CPU")
    counted = theirs is not None and theirs[1] >= AT_WORK_COUNTED
    lost = case.speed.times_slower(ALONE) if counted else case.speed.lost_against(ALONE)
    if lost is None:
        raise missing("how fast it should be", CAUSE.ask)
    if lost < (WORTH_NAMING if counted else FAR_BELOW):
        return Absent("decode is as fast as this GPU should reach")
    if any(OVERHEATED & set(gpu.event_reasons.get() or ()) for _, gpu in samples):
        return Absent("heat slows the GPU down")
    clocks = [gpu.clock_share for gpu in case.telemetry.loaded_gpus if gpu.clock_share is not None]
    if theirs is None and clocks and explains(min(clocks), lost):  # a listed process need not compute
        words = "another process is on the GPU, but low clocks explain the speed"
        return Suspected(words, "the work of other processes on the GPU", CAUSE.ask)
    which = case.vram.label_process(others[0]) if len(others) == 1 else f"one of {len(others)} other processes"
    verb = "is on" if len(others) == 1 else "computes on"
    return finding(
        case,
        f"{which} {verb} the same GPU, which is {busy:.0%} busy, and decode is {lost:.1f} times slower than this GPU "
        "should reach with the whole model on it",
        *(case.vram.cite_process(process) for process in others[:MOST_LISTED]),
        f"run.gpus.{place}.busy",
        rate,
        *([case.cite(theirs[0], "none")] if theirs and theirs[0] != "run.telemetry" else ()),
        cure=ALONE,
        fixes=[STOP],
    )


def sharing_seen(case: CaseView) -> Found | Suspected | None:
    """A user runs several programs on one GPU and sees each slower than alone."""
    said = case.narrative.remarks_on(Topic.GPU_SHARED)
    if not said:
        return None
    # Nothing but the other program differs between the two sides, and the fast side is not the one with it
    slower = [
        c
        for c in case.account.comparisons.get() or ()
        if c.differs and set(c.differs) <= TOGETHER and c.now != "fast" and told_ratio(c) >= FAR_BELOW
        if slow_side_has(c, *c.differs) is not False
    ]
    if not slower:
        return Suspected(said[0].text, "machine.gpus.0.processes", CAUSE.ask)
    return finding(
        case,
        f"several programs compute on one GPU, and each is slower than alone: {said[0].text}",
        case.narrative.cite_remarks(said),
        case.narrative.cite_comparison(slower[0]),
        fixes=[Knob.OTHER_PROCESS.to(None, "give each a GPU of its own, or run them in turn")],
    )


def _others_idle(case: CaseView, busy: float) -> str:
    """Why no other process computes on the GPU, by the driver's count or by its pauses; empty where one may."""
    theirs, pause = case.telemetry.work_of_others, case.telemetry.busy_between_requests
    if theirs is not None and theirs[1] < IDLE:
        return f"other processes on the GPU computed for {theirs[1]:.0%} of the time"
    if busy < FULLY_BUSY:
        return f"the GPU is {busy:.0%} busy: no other process keeps it from the runtime"
    if theirs is None and pause is not None and pause < AT_WORK:
        return f"the GPU is {pause:.0%} busy between requests: the processes that hold its memory do not compute"
    return ""


CAUSE = Cause(
    title="Another program computes on the same GPU",
    phase="decode",
    needs=all_of("machine.gpus.0.processes or run.telemetry or account.remarks"),
    routes=(Route("measured", busy_between_requests), Route("measured", process_list), Route("told", sharing_seen)),
    on_gpu=True,
    explains=("gpu_power_capped", "gpu_held_at_low_clocks", "gpu_thermal_throttling", "cpu_contended"),
    gpu_only=True,
    ask="while it generates: {gpu_users}",
)

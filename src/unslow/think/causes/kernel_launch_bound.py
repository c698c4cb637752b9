"""The host can't start kernels as fast as the GPU finishes them.

## Why it is slow
Frameworks that run a model operation by operation start hundreds of kernels for each token, from one thread, in an
interpreter. Each start costs some microseconds. Where a kernel is shorter than its start, the GPU waits, and neither a
smaller quant nor a faster GPU helps.

Guides say that every token pays the same round trip whatever the model, but their own figures grow with it: only small
models are bound by launches, large ones by their bytes.

## How to confirm
Time per token is about kernels x launch and far above bytes / bandwidth; one core of the host is busy, the GPU's
memory is not; four or eight requests at once take hardly longer for a token than one.

## What it is not
A big model near its bandwidth, or a setting that switches graphs off (that is `eager_mode`). Tokens that take seconds
are no launches either.

## How to fix
Start fewer kernels, or make each worth its start:
- Transformers: `cache_implementation="static"` with `torch.compile`, or serve the model with vLLM or SGLang
- exllama, AutoGPTQ, AutoAWQ: vLLM or SGLang with the same files, or a GGUF of the model in llama.cpp
- any: several requests at once cost little more time than one, and so does a larger model

## Safety
Another runtime may round differently.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.demand import read_shape
from unslow.think.case.gpus import gpu_samples
from unslow.think.case.narrative import remarks_on
from unslow.think.case.placement import cpu_computes
from unslow.think.case.prediction import measured_rate
from unslow.think.case.slowness import lost_against
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._facts import cite, cite_remarks, need

ONE_BY_ONE = ("transformers", "exllama", "text-generation-webui", "ctransformers", "autogptq", "autoawq")
"""Runtimes that start every operation from Python."""
KERNELS_PER_LAYER = 20
SHORTEST_LAUNCH_S, LONGEST_LAUNCH_S = 3e-6, 1e-4
"""From a bare launch of CUDA to one through PyTorch's dispatcher with Python around it."""
FAR_BELOW = 1.5  # Times slower than physics gives: predictions are off by less
ONE_CORE = (0.6, 1.6)  # Cores: one thread starts the kernels, and something beside it answers
BUSY = 0.85  # Of the time: a GPU that waits for each kernel has gaps
GRAPHS = Cure(graphs=True)
SAME_STEP = 1.4  # Times as long with several requests at once: a step that is bound by launches hardly grows
_GRAPHS = Knob.GRAPHS.to(value=True, why="compile with a static cache, or take a runtime with graphs")


def check(case: Case) -> Found | Absent | Suspected:
    """See whether kernels times launch is what a token takes, with one core at work and the GPU not."""
    if case.runtime.eager.value_or(default=False):
        return Absent("graphs are switched off by a setting, which is another cause")
    name = need(case, "runtime.name").lower()
    if not any(runtime in name for runtime in ONE_BY_ONE):
        return Absent(f"{name} starts a token's kernels together")
    return first_to_decide(case, _by_time, _by_words)


def _by_time(case: Case) -> Found | Absent | None:
    if cpu_computes(case):
        return Absent("the CPU computes part of the model itself")
    lost = lost_against(case, GRAPHS)
    if lost is None:
        return None
    if lost < FAR_BELOW:
        return Absent("the speed is what this GPU gives")
    launch = 1 / (measured_rate(case).need() * KERNELS_PER_LAYER * read_shape(case).layers)
    if not SHORTEST_LAUNCH_S <= launch <= LONGEST_LAUNCH_S:
        return Absent(f"a token takes {launch * 1e6:.0f} microseconds for each kernel: that is no launch")
    shown = _by_requests(case) if isinstance(case.run.at_once, Known) else _by_core(case)
    if isinstance(shown, Absent):
        return shown
    return Found(
        because=f"{case.runtime.name.value_or('the runtime')} needs about {launch * 1e6:.0f} microseconds to start "
        f"what the GPU finishes sooner: {lost:.1f} times slower than its bandwidth allows, with one core busy",
        evidence=(*shown, cite(case, "run.decode_tokens_per_s")),
        cure=GRAPHS,
        remedies=(Remedy(_GRAPHS, GRAPHS),),
        explains=_explained(case),
    )


def _explained(case: Case) -> tuple[str, ...]:
    """What goes with it; the cost of samplers stands by itself where it was tried without them."""
    tried = isinstance(case.run.plain_sampling, Known)
    return tuple(cause for cause in CAUSE.explains if not (tried and cause == "sampling_on_cpu"))


def _by_requests(case: Case) -> Absent | Citations:
    """The time of a step with several requests against that with one: launches cost the same for both."""
    tried = sorted(need(case, "run.at_once"), key=lambda t: t.requests)
    if len(tried) < 2 or min(t.tokens_per_s for t in tried) <= 0:  # noqa: PLR2004 (one alone, and several)
        return _by_core(case)
    alone, several = tried[0], tried[-1]
    longer = (several.requests / several.tokens_per_s) / (alone.requests / alone.tokens_per_s)
    words = f"{several.requests} requests at once take {longer:.2f} times as long for a token as {alone.requests}"
    if longer > SAME_STEP:
        return Absent(f"{words}: it is not the start of kernels")
    return (cite(case, "run.at_once", "1 where launches decide", words),)


def _by_core(case: Case) -> Absent | Citations:
    """One core that is busy all the time beside a GPU whose memory is not."""
    own, _ = need(case, "run.own_cpus"), need(case, "run.gpus")
    loads = gpu_samples(case)
    busy = max((g.memory_busy.value_or(g.busy.value_or(1.0)) for _, g in loads), default=1.0)
    if busy > BUSY:  # short kernels in a row keep a GPU "busy" as well: only its memory tells
        for place, _ in loads:
            need(case, f"run.gpus.{place}.memory_busy")
    if not ONE_CORE[0] <= own <= ONE_CORE[1] or busy > BUSY:
        return Absent(f"the runtime uses {own:.1f} cores, and the GPU's memory is {busy:.0%} busy")
    return cite(case, "run.own_cpus"), cite(case, f"run.gpus.{loads[0][0]}.busy")


def _by_words(case: Case) -> Found | Suspected | None:
    """One core that is busy all the time beside a GPU that is not: whoever sees both sees the launches."""
    core, idle = remarks_on(case, Topic.ONE_CORE_BUSY), remarks_on(case, Topic.GPU_IDLE)
    if core and idle and not cpu_computes(case):
        evidence = cite_remarks(case, (*core[:1], *idle[:1]))
        because = f"one core starts kernels all the time: {core[0].text}"
        return Found(because, evidence, remedies=(Remedy(_GRAPHS),), explains=_explained(case))
    said = core or idle
    return Suspected(said[0].text, "run.own_cpus", CAUSE.ask) if said else None


CAUSE = Cause(
    title="The host can't start kernels fast enough",
    phase="decode",
    needs=("runtime.name",),
    check=check,
    explains=("cpu_round_trip_bound", "sampling_on_cpu"),
    gpu_only=True,
    ask="while it generates: {gpu_busy}, and {own_threads}; the speed of one request alone and of eight at once",
)

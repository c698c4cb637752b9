"""The host cannot launch kernels as fast as the GPU finishes them.

## Why it is slow
Frameworks that run a model operation by operation launch hundreds of kernels for each token, from one thread, in an
interpreter. Each launch costs some microseconds. Where a kernel takes less time than its launch, the GPU waits, and
neither a smaller quant nor a faster GPU helps.

Guides say that every token pays the same round trip whatever the model, but their own figures grow with it: only small
models are bound by launches, large ones by their bytes.

## How to confirm
Time per token is about kernels x launch and far above bytes / bandwidth; one core of the host is busy, the GPU's
memory is not; four or eight requests at once take hardly longer per token than one.

## What it is not
A large model near its bandwidth, or a setting that disables CUDA graphs (that is `eager_mode`). Tokens that take
seconds are not bound by launches either.

## How to fix
Launch fewer kernels, or make each one worth its launch:
- Transformers: `cache_implementation="static"` with `torch.compile`, or serve the model with vLLM or SGLang
- exllama, AutoGPTQ, AutoAWQ: vLLM or SGLang with the same files, or a GGUF of the model in llama.cpp
- any: several requests at once take little more time than one, and so does a larger model

## Safety
Another runtime may round differently.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known, first_known
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding
from unslow.think.report import Evidence

ONE_BY_ONE = ("transformers", "exllama", "text-generation-webui", "ctransformers", "autogptq", "autoawq")
"""Runtimes that launch every operation from Python."""
KERNELS_PER_LAYER = 20
SHORTEST_LAUNCH_S, LONGEST_LAUNCH_S = 3e-6, 1e-4
"""From a bare CUDA launch to one through PyTorch's dispatcher with Python around it."""
FAR_BELOW = 1.5  # Times slower than physics gives: predictions are off by less
ONE_CORE = (0.6, 1.6)  # Cores: one thread launches the kernels, and something beside it serves requests
BUSY = 0.85  # Of the time: a GPU that waits for each kernel has gaps
SAME_STEP = 1.4  # Times as long with several requests at once: a step that is bound by launches hardly grows
GRAPHS = Cure(graphs=True)
_USE_GRAPHS = Knob.GRAPHS.to(value=True, why="compile with a static cache, or use a runtime with CUDA graphs")


def graphs_disabled(case: CaseView) -> Absent | None:
    """A setting that disables CUDA graphs is a cause of its own."""
    is_set = case.runtime.compute.eager.get()
    return Absent("a setting disables CUDA graphs, which is another cause") if is_set else None


def runtime_name(case: CaseView) -> Absent | None:
    """Whether the runtime is one that launches kernels one by one."""
    name = case.need("runtime.name").lower()
    is_one = any(runtime in name for runtime in ONE_BY_ONE)
    return None if is_one else Absent(f"{name} launches the kernels of a token together")


def layers_on_cpu(case: CaseView) -> Absent | None:
    """Where the CPU computes a part of the model, launches are not what decode waits for."""
    return Absent("the CPU computes part of the model") if case.placement.cpu_computes else None


def time_per_kernel(case: CaseView) -> Absent | None:
    """The measured time of a token, divided by the number of kernels that it takes."""
    lost = case.speed.lost_against(GRAPHS)
    if lost is not None and lost < FAR_BELOW:
        return Absent("decode is as fast as expected on this GPU")
    if lost is not None and not SHORTEST_LAUNCH_S <= (launch_s := _launch_s(case)) <= LONGEST_LAUNCH_S:
        return Absent(f"a token takes {launch_s * 1e6:.0f} microseconds per kernel, which is not a launch time")
    return None


def several_requests(case: CaseView) -> Found | Absent | None:
    """The time of a step with several requests against that with one: launches take the same time for both."""
    tried = sorted(case.run.at_once.get() or (), key=lambda t: t.requests)
    is_timed = len(tried) > 1 and min(t.tokens_per_s for t in tried) > 0
    if not is_timed or case.speed.lost_against(GRAPHS) is None:
        return None
    alone, several = tried[0], tried[-1]
    longer = (several.requests / several.tokens_per_s) / (alone.requests / alone.tokens_per_s)
    words = (
        f"a token takes {longer:.2f} times as long with {several.requests} requests at once as with {alone.requests}"
    )
    if longer > SAME_STEP:
        return Absent(f"{words}: launches are not the limit")
    return _launch_bound(case, case.cite("run.at_once", "1 where launches decide", words))


def busy_core(case: CaseView) -> Found | Absent | None:
    """One core that is busy all the time beside a GPU whose memory is not."""
    if case.speed.lost_against(GRAPHS) is None:
        return None
    own, _ = case.need("run.own_cpus"), case.need("run.gpus")
    samples = case.telemetry.gpu_samples
    if not samples:
        return Absent("none of the GPUs that were sampled is the runtime's")
    shares = [first_known(gpu.memory_busy, gpu.busy).get() for _, gpu in samples]
    if any(share is None or share > BUSY for share in shares):  # short kernels in a row keep a GPU "busy" too
        for place, _ in samples:
            case.need(f"run.gpus.{place}.memory_busy")
    busy = max(share for share in shares if share is not None)
    if not ONE_CORE[0] <= own <= ONE_CORE[1] or busy > BUSY:
        return Absent(f"the runtime uses {own:.1f} cores, and the GPU's memory is {busy:.0%} busy")
    return _launch_bound(case, case.cite("run.own_cpus"), case.cite(f"run.gpus.{samples[0][0]}.busy"))


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A user sees one core busy all the time beside a GPU that is not."""
    core, idle = case.narrative.remarks_on(Topic.ONE_CORE_BUSY), case.narrative.remarks_on(Topic.GPU_IDLE)
    if core and idle:
        because = f"one core is busy launching kernels all the time: {core[0].text}"
        shown_by = case.narrative.cite_remarks((core[0], idle[0]))
        return finding(case, because, shown_by, fixes=[_USE_GRAPHS], explains=_explained_causes(case))
    said = core or idle
    return Suspected(said[0].text, "run.own_cpus", CAUSE.ask) if said else None


def _launch_s(case: CaseView) -> float:
    return 1 / (case.speed.measured_rate.need() * KERNELS_PER_LAYER * case.memory.shape.layers)


def _launch_bound(case: CaseView, *shown_by: Evidence) -> Found:
    return finding(
        case,
        f"{case.engine.label} takes about {_launch_s(case) * 1e6:.0f} microseconds to launch a kernel that the GPU "
        f"finishes sooner: {case.speed.lost_against(GRAPHS):.1f} times slower than its bandwidth allows, with one core "
        "busy",
        *shown_by,
        "run.decode_tokens_per_s",
        cure=GRAPHS,
        fixes=[_USE_GRAPHS],
        explains=_explained_causes(case),
    )


def _explained_causes(case: CaseView) -> tuple[str, ...]:
    """What follows from it; the cost of samplers is a finding of its own where decode was timed without them."""
    tried = isinstance(case.run.plain_sampling, Known)
    return tuple(cause for cause in CAUSE.explains if not (tried and cause == "sampling_on_cpu"))


CAUSE = Cause(
    title="The host cannot launch kernels fast enough",
    phase="decode",
    needs=all_of("runtime.name"),
    routes=(
        Route("counted", graphs_disabled),
        Route("counted", runtime_name),
        Route("counted", layers_on_cpu),
        Route("measured", time_per_kernel),
        Route("measured", several_requests),
        Route("measured", busy_core),
        Route("told", said_by_person),
    ),
    explains=("cpu_round_trip_bound", "sampling_on_cpu"),
    gpu_only=True,
    ask="while it generates: {gpu_busy}, and {own_threads}; the speed of one request alone and of eight at once",
)

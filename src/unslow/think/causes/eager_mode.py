"""A setting switches CUDA graphs or compilation off.

## Why it is slow
Decoding one token is hundreds of small kernels. A CUDA graph starts them all at once; in eager mode the host starts
each by itself, and for small batches the GPU waits for the host most of the time.

## How to confirm
`--enforce-eager` in the command line, `Cudagraph is disabled under eager mode` in vLLM's log, `--disable-cuda-graph`
for SGLang, `GGML_CUDA_DISABLE_GRAPHS=1` for llama.cpp; and few requests at a time.

## How to fix
Remove the setting. Graphs take some GPU memory and seconds at the start; if memory is why it was set, lower the number
of captured sizes instead.

## Safety
Answers do not change beyond rounding.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.think.adapt.account import gain_of, times_as_fast
from unslow.think.adapt.experiments import blames, is_report, tried
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite, need
from unslow.think.causes._routes import cite_comparison, first_to_decide
from unslow.think.report import Evidence
from unslow.think.slowness import generates_slowly

FEW_REQUESTS = 8
"""At a time: with more, kernels are long enough to hide their start."""


def check(case: Case) -> Found | Absent | Suspected:
    """See whether graphs are off, and whether launches can be what is slow."""
    return first_to_decide(case, _by_trial, _by_setting)


def _by_trial(case: Case) -> Found | None:
    trial = tried(case, Topic.GRAPHS, Topic.KERNEL)
    if trial is None or case.runtime.eager.value_or(default=True) is False:
        return None
    words = f"with graphs it is {times_as_fast(trial)}"
    return _found(words, (cite_comparison(case, trial),), gain_of(trial))


def _by_setting(case: Case) -> Found | Absent | Suspected | None:
    if not need(case, "runtime.eager"):
        return Absent("graphs are not switched off")
    running = case.runtime.running_requests.value_or(1)
    if running > FEW_REQUESTS:
        return Absent(f"{running} requests run at once: the kernels hide their start")
    if is_report(case) and not blames(case, "decode"):
        return Absent("graphs are off, but it is not decoding that is slow")
    slow = generates_slowly(case)
    if slow is False:
        return Absent("graphs are off, and it is as fast as this set-up should be")
    if slow is None:
        return Suspected("graphs are switched off", "run.decode_tokens_per_s", CAUSE.ask)
    return _found("graphs are switched off: the host starts every kernel by itself", (cite(case, "runtime.eager"),))


def _found(because: str, evidence: tuple[Evidence, ...], speedup: float | None = None) -> Found:
    change = Knob.GRAPHS.to(value=True, why="remove the setting that switches them off")
    return Found(because, evidence, None, (Remedy(change, None, "some GPU memory"),), speedup=speedup)


CAUSE = Cause(
    title="CUDA graphs are switched off",
    phase="decode",
    needs=(("runtime.eager", "account.comparisons"),),
    check=check,
    explains=("kernel_launch_bound", "cpu_round_trip_bound"),
    ask="the command line of the server, and the tokens per second of one request with and without `--enforce-eager`",
)

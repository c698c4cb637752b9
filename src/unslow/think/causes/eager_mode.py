"""A setting switches CUDA graphs or compilation off.

## Why it is slow
Decoding one token is hundreds of small kernels. A CUDA graph starts them all at once; in eager mode the host starts
each by itself, and for small models and few requests the GPU waits for the host most of the time.

## How to confirm
The setting is in the command line, the environment or the log, tokens come far slower than the GPU's bandwidth allows,
and few requests run at a time: with many, kernels are long enough to hide their start.

## What it is not
Launches that are slow with nothing switched off: that is `kernel_launch_bound`. Nor a large model, or many requests at
once, where the setting costs next to nothing.

## How to fix
Remove the setting:
- vLLM: `--enforce-eager`, `-O0` (its log says `Cudagraph is disabled under eager mode`)
- SGLang: `--disable-cuda-graph`; TGI: `--cuda-graphs 0`
- llama.cpp, Ollama, LM Studio: `GGML_CUDA_DISABLE_GRAPHS=1` in the environment of the server
- Transformers: generate with `cache_implementation="static"`, which compiles; its default cache grows with each token,
  and nothing that grows can be captured

Graphs take some GPU memory and seconds at the start; if memory is why it was set, let vLLM capture fewer sizes
(`--max-num-seqs`) instead.

## Safety
Answers do not change beyond rounding.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.narrative import blames, is_report, slow_side_has, tried
from unslow.think.case.prediction import Prediction, predict
from unslow.think.case.runtime import runs_ggml
from unslow.think.case.slowness import behaves_as_set_up, lost_against
from unslow.think.case.work import FETCHES, Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import cite, found_by_trial, need

GRAPHS_OFF = "GGML_CUDA_DISABLE_GRAPHS"
ON = Cure(graphs=True)
_SWITCH_ON = Remedy(Knob.GRAPHS.to(value=True, why="remove the setting that switches them off"), ON, "some GPU memory")
MOSTLY = 0.5  # Of a token
FEW_REQUESTS = 8  # At a time: with more, kernels are long enough to hide their start


def _by_trial(case: Case) -> Found | Suspected | None:
    trial = tried(case, Topic.GRAPHS, Topic.KERNEL)
    if trial is None or case.runtime.eager.value_or(default=True) is False:
        return None
    slow_with = slow_side_has(trial, Topic.GRAPHS)
    if slow_with is None:
        return Suspected(trial.text, "which of the two speeds is the one with graphs", CAUSE.ask)
    if slow_with:
        return None
    return found_by_trial(case, trial, "with graphs it", _SWITCH_ON, cure=ON)


def _by_setting(case: Case) -> Found | Absent | Suspected | None:
    environment, fact = case.runtime.environment, "runtime.eager"
    if isinstance(environment, Known) and not isinstance(case.runtime.eager, Known) and runs_ggml(case):
        fact, off = "runtime.environment", GRAPHS_OFF in environment.value  # llama.cpp has no other switch
    else:
        off = need(case, fact)
    if not off:
        return Absent("graphs are not switched off")
    running = case.runtime.running_requests.value_or(1)
    if running > FEW_REQUESTS:
        return Absent(f"{running} requests run at once: the kernels hide their start")
    now = predict(case)
    fetches_s = sum(p.seconds for p in now.parts if p.name == FETCHES) if isinstance(now, Prediction) else 0.0
    if isinstance(now, Prediction) and fetches_s > MOSTLY * now.seconds.mid:
        return Absent("graphs are off, and a token waits for weights from the host's memory meanwhile")
    if is_report(case) and not blames(case, "decode"):
        return Absent("graphs are off, but it is not decoding that is slow")
    lost = lost_against(case, ON)
    if lost == 1 and not behaves_as_set_up(case, ON):
        return Absent("graphs are off, and it is as fast as with them")
    if lost is None and not blames(case, "decode"):
        return Suspected("graphs are switched off", "run.decode_tokens_per_s", CAUSE.ask)
    words = "graphs are switched off: the host starts every kernel by itself"
    return Found(words, (cite(case, fact),), ON, (_SWITCH_ON,))


CAUSE = Cause(
    title="CUDA graphs are switched off",
    phase="decode",
    needs=(("runtime.eager", "runtime.environment", "account.comparisons"),),
    check=check_by(_by_trial, _by_setting),
    gpu_only=True,
    not_on=("macOS",),
    explains=("kernel_launch_bound", "cpu_round_trip_bound"),
    ask="{command_line}, and {try_graphs}",
)

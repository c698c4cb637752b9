"""A setting disables CUDA graphs or compilation, or leaves attention out of them.

## Why it is slow
Decoding one token takes hundreds of small kernels. A CUDA graph launches them all at once; in eager mode the host
launches each one separately, and with a small model and few requests the GPU waits for the host most of the time.

Graphs in pieces leave attention out: the host launches it in every layer, between two pieces. On an H200 an 8B in BF16
then gives 124 tok/s, 65 without graphs and 206 with whole ones.

## How to confirm
The setting is in the command line, the environment or the log, decode is far slower than the GPU's bandwidth allows,
and few requests run at a time: with many, kernels take long enough to hide their launch.

## What it is not
Launches that are slow with nothing disabled: that is `kernel_launch_bound`. Nor a large model, or many requests at
once, where the setting costs next to nothing.

Nor vLLM from 0.8 to 0.10, whose graphs leave attention out by default: only a newer version changes that.

## How to fix
Remove the setting:
- vLLM: `--enforce-eager`, `-O0` (its log says `Cudagraph is disabled under eager mode`), `cudagraph_mode` of `NONE`
  or `PIECEWISE`
- SGLang: `--disable-cuda-graph`; TGI: `--cuda-graphs 0`
- llama.cpp, Ollama, LM Studio: `GGML_CUDA_DISABLE_GRAPHS=1` in the environment of the server
- Transformers: generate with `cache_implementation="static"`, which compiles; its default cache grows with each token,
  and nothing that grows can be captured

Graphs take some GPU memory, and seconds at startup. If the setting was meant to save memory, let vLLM capture fewer
sizes instead (`--max-num-seqs`).

## Safety
Answers do not change beyond rounding.
"""

from unslow.catalog.devices import slowest_gpu_of_size
from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import slow_side_has, times_as_fast
from unslow.think.case.physics import FETCHES
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding

GRAPHS_OFF = "GGML_CUDA_DISABLE_GRAPHS"
OFF = "CUDA graphs are disabled"
ON = Cure(graphs=True)
_ENABLE = Remedy(Knob.GRAPHS.to(value=True, why="remove the setting that disables CUDA graphs"), ON, "some GPU memory")
_RECORD_ALL = Remedy(Knob.GRAPHS.to(value=True, why="drop the mode: by default, graphs include attention"), ON)
MOSTLY = 0.5  # Of a token's time
FEW_REQUESTS = 8  # At a time: with more, kernels take long enough to hide their launch


def faster_with_graphs(case: CaseView) -> Found | Suspected | None:
    """A user timed it with and without CUDA graphs."""
    trial = case.narrative.trial_of(Topic.GRAPHS, Topic.KERNEL)
    if trial is None or case.runtime.compute.eager.get() is False:
        return None
    slow_with = slow_side_has(trial, Topic.GRAPHS)
    if slow_with is None:
        return Suspected(trial.text, "which of the two speeds is the one with graphs", CAUSE.ask)
    if slow_with:
        return None
    return finding(case, f"with CUDA graphs it is {times_as_fast(trial)}", cure=ON, fixes=[_ENABLE], trial=trial)


def setting_and_speed(case: CaseView) -> Found | Absent | Suspected:
    """The setting, and whether decode is slower than it would be with graphs."""
    environment, fact = case.runtime.process.environment, "runtime.compute.eager"
    if isinstance(environment, Known) and not isinstance(case.runtime.compute.eager, Known) and case.engine.runs_ggml:
        fact, is_off = "runtime.process.environment", GRAPHS_OFF in environment.value  # the only switch of llama.cpp
    else:
        is_off = case.need(fact)
    what = OFF
    if not is_off and case.engine.graphs_without_attention and not case.engine.leaves_attention_out_by_default:
        is_off, fact, what = True, "runtime.compute.graphs_without_attention", "CUDA graphs leave attention out"
    if not is_off:
        return Absent("CUDA graphs are not disabled")
    running = case.runtime.scheduling.running_requests.get()
    if running is not None and running > FEW_REQUESTS:
        return Absent(f"{running} requests run at once: their kernels hide the launches")
    now = case.speed.predict()
    fetches_s = sum(p.seconds for p in now.parts if p.name == FETCHES) if isinstance(now, Prediction) else 0.0
    if isinstance(now, Prediction) and fetches_s > MOSTLY * now.seconds.mid:
        return Absent(f"{what}, but a token mostly waits for weights from host memory")
    if case.narrative.is_report and not case.narrative.blames("decode"):
        return Absent(f"{what}, but decode is not what is slow")
    lost = case.speed.lost_against(ON)
    if lost == 1 and not case.speed.behaves_as_configured(ON):
        return Absent(f"{what}, and decode is as fast as with them")
    launched, idles = "every kernel" if what == OFF else "it in every layer", ""
    if lost is None and not case.narrative.blames("decode"):
        idles = gpu_idles_whatever_it_is(case)
        if not idles:
            return Suspected(what, "run.decode_tokens_per_s", CAUSE.ask)
    because, remedy = f"{what}: the host launches {launched} separately{idles}", _ENABLE if what == OFF else _RECORD_ALL
    return finding(case, because, fact, cure=ON, fixes=[remedy])


def gpu_idles_whatever_it_is(case: CaseView) -> str:
    """Where only the size of the GPU is known: in words, if even the slowest of that size spends little on weights."""
    rate, devices = case.sharing.rate_among_others, case.gpus.computing_devices
    sizes, held = [d.total_bytes.value_or(0) for d in devices], case.vram.buffers("model", on_gpu=True)
    slowest = slowest_gpu_of_size(min(sizes)) if sizes and all(sizes) and held else None
    if slowest is None or not isinstance(rate, Known):
        return ""
    reads_s = max(b.bytes for b in held) / slowest.memory_bytes_per_s
    if reads_s > MOSTLY / rate.value:
        return ""
    reading = f"the slowest GPU with {min(sizes) / GIB:.0f} GiB reads the weights in {reads_s * 1e3:.1f}"
    return f"; even {reading} of the {1e3 / rate.value:.1f} ms per token"


CAUSE = Cause(
    title="CUDA graphs are disabled",
    phase="decode",
    needs=all_of("runtime.compute.eager or runtime.process.environment or account.comparisons"),
    routes=(Route("told", faster_with_graphs), Route("counted", setting_and_speed)),
    gpu_only=True,
    not_on=("macOS",),
    explains=("kernel_launch_bound", "cpu_round_trip_bound"),
    ask="{command_line}, and {try_graphs}",
)

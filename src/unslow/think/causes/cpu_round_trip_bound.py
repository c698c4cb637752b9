"""The model is so small that the round trip to the CPU between tokens takes longer than computing them.

## Why it is slow
Each token ends with a round trip: the logits go to the host, the host samples a token and launches the next step. That
takes about the same time for any model. Where a step on the GPU takes less than a millisecond or two, the GPU is idle
most of the time, and neither a smaller quant nor a faster GPU changes anything.

## How to confirm
During decode the GPU is busy less than half of the time, one core of the host is busy, and reading the weights would
take a small part of a token's time. A model of twice the size is nearly as fast.

Guides say that the round trip takes 0.85 ms whatever the model, but copying the logits takes some 25 µs; the rest is
launches and sampling, which differ by runtime and host.

## What it is not
A large model near its bandwidth, however idle the host. Nor a setting that disables CUDA graphs, samplers that sort the
whole vocabulary, or other processes on the host's cores.

## How to fix
Use the gap: several requests at once (llama.cpp `-np 4`, Ollama `OLLAMA_NUM_PARALLEL=4`, LM Studio `--parallel 4`,
Transformers a batch of prompts; vLLM and SGLang batch on their own), a larger model, speculative decoding (llama.cpp
`-md DRAFT`, vLLM `--speculative-config`). Or shorten it: a runtime with CUDA graphs and sampling on the GPU, a host
with faster cores.

## Safety
Answers do not change, except with a larger model, for the better.
"""

from unslow.facts.knob import Knob
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, all_of, finding
from unslow.think.physics.decode import READS

SMALL_READ_S = 1.5e-3  # At most, to read the weights for one token: 1.5 GB on a GPU of 1 TB/s
READ_SHARE = 0.15  # Of a token's expected time: for a model that is not small, reads take a larger part on any GPU
IDLE = 0.5  # Of the time: a GPU that is busy for longer has more to do than wait
OWN_CORE = 0.5  # Of a core: a host that launches work token by token keeps about one busy
SHOW = "while it generates: {gpu_busy}, and {own_threads}"


def expected_speed(case: CaseView) -> Absent | None:
    """Decode is as fast as it should be with these settings."""
    return Absent("decode is as fast as expected with these settings") if case.speed.is_slow is False else None


def layers_on_cpu(case: CaseView) -> Absent | None:
    """The CPU is busy with a part of the model, not with round trips."""
    return Absent("the CPU computes part of the model") if case.placement.cpu_computes else None


def idle_gpu_and_busy_core(case: CaseView) -> Found | Absent:
    """How long the weights take to read, and how busy the GPU and the runtime's threads are during decode."""
    slow, expected = case.speed.need_slowness(), case.speed.need_prediction()
    reads_s = sum(p.seconds for p in expected.parts if p.name == READS)
    token_s, expected_s = 1 / case.speed.measured_rate.need(), expected.seconds.mid
    if not slow or reads_s > SMALL_READ_S or reads_s > READ_SHARE * expected_s:
        took = f"{reads_s * 1e3:.1f} of {expected_s * 1e3:.1f} ms per token"
        return Absent(f"the model is not small: reading its weights takes {took}")
    loaded = case.telemetry.gpus_at_work
    busy = case.ask_for(f"{loaded[0].at}.busy", SHOW) if loaded else 0.0
    own = case.ask_for("run.own_cpus", SHOW)
    if busy > IDLE or own < OWN_CORE:
        return Absent(f"the GPU is {busy:.0%} busy and the runtime uses {own:.1f} cores")
    return finding(
        case,
        f"reading the weights takes {reads_s / token_s:.0%} of a token's time; the GPU is idle {1 - busy:.0%} of the "
        "time, waiting for the host",
        "run.own_cpus",
        *(f"{gpu.at}.busy" for gpu in loaded[:1]),
        cure=Cure(),
        fixes=[
            Remedy(Knob.PARALLEL.to(4, "run several requests at once to fill the gap")),
            Remedy(Knob.SPECULATIVE.to("DRAFT_MODEL", "get several tokens out of each round trip")),
        ],
    )


CAUSE = Cause(
    title="The GPU waits for the host between tokens",
    phase="decode",
    needs=all_of("machine.gpus", "run.gpus", "run.own_cpus"),
    routes=(
        Route("measured", expected_speed),
        Route("counted", layers_on_cpu),
        Route("measured", idle_gpu_and_busy_core),
    ),
    gpu_only=True,
    ask=SHOW,
    last_resort=True,
)

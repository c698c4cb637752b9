"""The model is so small that going to the CPU and back between tokens takes longer than computing them.

## Why it is slow
Each token ends with a round trip: the result goes to the host, a token is chosen, the next step is launched. That
takes about the same time for any model. Where a step on the GPU takes less than a millisecond or two, the GPU idles
most of the time, and neither a smaller quant nor a faster GPU changes anything.

## How to confirm
While tokens are generated the GPU is busy less than half of the time, one core of the host works, and reading the
weights would take a small part of a token's time. A model of twice the size is nearly as fast.

Guides say that the round trip takes 0.85 ms whatever the model, but copying the result takes some 25 µs; what is left
is launches and sampling, which differ by runtime and host.

## What it is not
A big model near its bandwidth, however idle the host; nor a setting that switches graphs off, samplers that sort the
whole vocabulary, or other programs on the host's cores.

## How to fix
Use the gap: several requests at once (llama.cpp `-np 4`, Ollama `OLLAMA_NUM_PARALLEL=4`, LM Studio `--parallel 4`,
Transformers a batch of prompts; vLLM and SGLang batch by themselves), a larger model, speculative decoding (llama.cpp
`-md DRAFT`, vLLM `--speculative-config`). Or shorten it: a runtime with CUDA graphs and sampling on the GPU, a host
with faster cores.

## Safety
Answers do not change, but with a larger model, for the better.
"""

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.think.case.placement import cpu_computes
from unslow.think.case.prediction import measured_rate
from unslow.think.case.slowness import generates_slowly
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy
from unslow.think.causes._facts import ask_for, at_work, cite, must_be_slow, must_predict
from unslow.think.physics.decode import READS

SMALL_READ_S = 1.5e-3  # Reading the weights of a token takes no longer: 1.5 GB on a GPU of 1 TB/s
READ_SHARE = 0.15
"""Of the time that a token should take: of a model that is not small, reading is a larger part on any GPU."""
IDLE = 0.5  # Of the time: a GPU that is busy for longer has more to do than to wait
OWN_CORE = 0.5  # Of a core: a host that gives out work token by token keeps about one busy
SHOW = "while it generates: {gpu_busy}, and {own_threads}"


def check(case: Case) -> Found | Absent:
    """Look for a small model, an idle GPU and a busy core, below the speed that its bytes allow."""
    if generates_slowly(case) is False:
        return Absent("it is as fast as this set-up should be")
    if cpu_computes(case):
        return Absent("the CPU computes part of the model itself")
    slow, expected = must_be_slow(case), must_predict(case)
    reads = sum(p.seconds for p in expected.parts if p.name == READS)
    token_s, should_s = 1 / measured_rate(case).need(), expected.seconds.mid
    if not slow or reads > SMALL_READ_S or reads > READ_SHARE * should_s:
        return Absent(f"reading the weights takes {reads * 1e3:.1f} of {should_s * 1e3:.1f} ms: the model is not small")
    loaded = at_work(case)
    busy = ask_for(case, f"{loaded[0].at}.busy", SHOW) if loaded else 0.0
    own = ask_for(case, "run.own_cpus", SHOW)
    if busy > IDLE or own < OWN_CORE:
        return Absent(f"the GPU is busy {busy:.0%} of the time, the runtime uses {own:.1f} cores")
    return Found(
        because=f"reading the weights takes {reads / token_s:.0%} of a token's time; the GPU is idle "
        f"{1 - busy:.0%} of it and waits for the host",
        evidence=(cite(case, "run.own_cpus"), *(cite(case, f"{g.at}.busy") for g in loaded[:1])),
        cure=Cure(),
        remedies=(
            Remedy(Knob.PARALLEL.to(4, "several requests at once fill the gap")),
            Remedy(Knob.SPECULATIVE.to("DRAFT_MODEL", "several tokens for each round trip")),
        ),
    )


CAUSE = Cause(
    title="The GPU waits for the host between tokens",
    phase="decode",
    needs=("machine.gpus", "run.gpus", "run.own_cpus"),
    check=check,
    gpu_only=True,
    ask=SHOW,
    last_resort=True,
)

"""Prompts are read slowly because weights in the host's memory are copied to the GPU for every part of them.

## Why it is slow
Where layers or experts lie in RAM, llama.cpp computes long prompts on the GPU all the same: it copies those weights
over the link once for every micro-batch. With hundreds of gigabytes of experts, each copy takes many seconds, and a
micro-batch has only 512 tokens to share it.

## How to confirm
Prompt speed is about micro-batch / (bytes on the host / link rate), and grows with the micro-batch: `llama-bench -m
MODEL -p 4096 -n 0 -ub 512,2048,4096`, with the placement of the server. While a prompt is read the link is busy, not
the GPU.

## What it is not
A GPU that computes at its rate while a prompt is read, or short prompts, which the CPU reads itself.

## How to fix
A larger micro-batch shares each copy among more tokens. llama.cpp: `-ub 4096 -b 4096`; Ollama: `num_batch`; LM Studio:
`evalBatchSize`. Fewer bytes in RAM help in proportion. Where even that loses against the CPU, switch the copying off
(llama.cpp `--no-op-offload`). vLLM copies `--cpu-offload-gb` for every step, prompts and tokens alike: let go of it;
so does Transformers with a `device_map` that has `cpu`.

## Safety
Answers do not change. A larger micro-batch takes more GPU memory for its compute buffer.
"""

import msgspec

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GB, Unknown
from unslow.think.case.demand import missing
from unslow.think.case.narrative import WORTH_COMPARING, is_report, names_phase, remarks_on
from unslow.think.case.placement import (
    FASTEST_BYTES_PER_S,
    SHOW_LINK,
    cpu_computes,
    host_link_bytes_per_s,
    host_weights_bytes,
)
from unslow.think.case.prediction import Prediction, predict_prefill
from unslow.think.case.work import Cure, measured_prompt_tokens, prompt_speed
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, first_to_decide
from unslow.think.causes._evidence import USUAL_UBATCH, Price, copies
from unslow.think.causes._facts import ask_for, cite_known, cite_remarks

LARGE_UBATCH = 4096  # Tokens: the most that people use for experts in RAM; its compute buffer takes a few GiB
SHORT_COPY_S = 0.25  # A copy for each micro-batch that takes less is not noticed
LONG_COPY_S = 1.0
"""A copy for each micro-batch that takes longer than this can't be overlooked by whoever waits for a prompt."""
SMALL_BYTES = GB
_SHOWN = (
    "run.long_prompt",
    "run.prefill_tokens_per_s",
    "runtime.prefill_tokens_per_s",
    "runtime.buffers",
    "model.weights_bytes",
)


def check(case: Case) -> Found | Absent | Suspected:
    """Hold the speed of prompts against what copying the host's weights allows."""
    if cpu_computes(case) is False:
        return Absent("all weights are on the GPU")
    if case.runtime.op_offload.value_or(default=True) is False:
        return Absent("copying weights for prompts is switched off")
    return first_to_decide(case, _by_observation, _by_copies)


def _by_observation(case: Case) -> Found | None:
    """Somebody who watched sees prompts wait for copies of weights."""
    said = remarks_on(case, Topic.COPIES_TO_GPU)
    held = cpu_computes(case) or remarks_on(case, Topic.EXPERTS_ON_CPU)
    if not said or not held or not is_report(case):
        return None
    larger = Knob.BATCH.to(LARGE_UBATCH, "a larger micro-batch shares each copy among more tokens")
    words = f"prompts wait for weights to cross the link: {said[0].text}"
    return Found(words, cite_remarks(case, said[:1]), remedies=(Remedy(larger, None, "a larger compute buffer"),))


def _by_copies(case: Case) -> Found | Absent | Suspected:
    host = host_weights_bytes(case)
    if host < SMALL_BYTES:
        return Absent(f"only {host / GB:.1f} GB of weights lie in the host's memory")
    link, ubatch = host_link_bytes_per_s(case), case.runtime.ubatch.value_or(USUAL_UBATCH)
    copy_s = host / (link or FASTEST_BYTES_PER_S)
    each = min(ubatch, measured_prompt_tokens(case) or ubatch)  # a prompt that is shorter fills no micro-batch
    allowed = each / copy_s
    least = "" if link else "at least "
    words = (
        f"{host / GB:.0f} GB of weights cross the link for every {each:.0f} tokens of a prompt: {least}{copy_s:.1f} s"
    )
    speed = prompt_speed(case)
    if isinstance(speed, Unknown) or not link:
        return _by_words(case, words, copy_s, link_known=bool(link))
    copied = copies(case, link)
    if not copied or not copied.is_bound:
        return Absent(
            f"copying would allow {allowed:.0f} tokens of a prompt per second, and it reads {speed.value:.0f}"
        )
    price = _no_better_than_physics(case, copied.with_ubatch(_larger(ubatch)), speed.value, _larger(ubatch))
    if price.speedup < WORTH_COMPARING:
        return Absent(f"{words}, and a larger micro-batch would gain next to nothing")
    found = _found(f"{words}; that allows {allowed:.0f} tokens per second", case, ubatch)
    return found._replace(speedup=price.speedup, lost=price.lost)


def _no_better_than_physics(case: Case, price: Price, tokens_per_s: float, ubatch: int) -> Price:
    """A larger micro-batch spares copies, and what is computed takes its time all the same."""
    then, now_s = predict_prefill(case, Cure(ubatch=ubatch)), 1 / tokens_per_s
    if not isinstance(then, Prediction) or now_s < WORTH_COMPARING * then.seconds.low:
        return price  # a speed that it already has, as by physics of a GPU that nobody named, says nothing
    left_s = then.seconds.low
    lost = msgspec.structs.replace(price.lost, seconds=min(price.lost.seconds, max(0.0, now_s - left_s)))
    return Price(min(price.speedup, max(1.0, now_s / left_s)), lost)


def _by_words(case: Case, words: str, copy_s: float, *, link_known: bool) -> Found | Absent | Suspected:
    """Without a speed the mechanism decides, where somebody waits for prompts and the copies are that long."""
    if copy_s >= LONG_COPY_S and names_phase(case, "prefill"):
        return _found(words, case, case.runtime.ubatch.value_or(USUAL_UBATCH))
    if copy_s < SHORT_COPY_S and not link_known:
        raise missing("how fast the link between host and GPU is", SHOW_LINK)
    if copy_s < SHORT_COPY_S:
        return Absent(f"{words}, which nobody notices")
    if copy_s < LONG_COPY_S:
        ask_for(case, "run.prefill_tokens_per_s", "{prompt_speed}")
    return Suspected(words, "the speed of a long prompt", "{prompt_speed}")


def _found(because: str, case: Case, ubatch: int) -> Found:
    larger, cure = _larger(ubatch), Cure(ubatch=_larger(ubatch))
    change = Knob.BATCH.to(larger, "a larger micro-batch shares each copy among more tokens")
    return Found(
        because, cite_known(case, *_SHOWN), remedies=(Remedy(change, cure, "more GPU memory for the compute buffer"),)
    )


def _larger(ubatch: int) -> int:
    return max(LARGE_UBATCH, 4 * ubatch)


CAUSE = Cause(
    title="Prompts wait for weights to cross the link",
    phase="prefill",
    needs=("machine.gpus", ("runtime.buffers", "model.weights_bytes", "account.remarks")),
    check=check,
    on_gpu=True,
    gpu_only=True,
    ask="{placement}; and {prompt_speed}",
)

"""Prompts are read in parts so small that the weights are read over and over.

## Why it is slow
All tokens of a micro-batch share one pass over the weights. With a few tokens in each, a prompt costs as many passes
as it has parts, and the matrix units of the GPU stay idle.

## How to confirm
`llama-bench -m MODEL -p 2048 -n 0 -ub 64,512,2048` grows with the micro-batch, and a long prompt is read about as fast
as physics gives for the micro-batch that is set.

Guides say that llama.cpp's `-n` is the batch, but that is how many tokens it generates: the batch is `-b`, and what is
computed at once is `-ub`.

## What it is not
A prompt that is far slower than its micro-batch allows, which waits for something else; nor a micro-batch of 512 on a
usual GPU.

## How to fix
Raise the micro-batch as far as GPU memory allows: 512 is enough for most GPUs, 2048 for the largest and where weights
cross a link. llama.cpp: `-ub 512`, and `-b` at least as large; Ollama: `num_batch`; LM Studio: `evalBatchSize`; vLLM:
`--max-num-batched-tokens`; SGLang: `--chunked-prefill-size`; MLX: `--prefill-step-size`. Transformers reads a prompt
as a whole.

## Safety
Answers do not change. The compute buffer grows with the micro-batch.
"""

from unslow.facts.account import Comparison, Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.case.narrative import (
    WORTH_COMPARING,
    counts_of,
    experiment_on,
    gain_of,
    is_clear,
    names_phase,
    remarks_on,
    slow_side_has_more,
    times_as_fast,
)
from unslow.think.case.overrides import sent_away
from unslow.think.case.placement import cpu_computes
from unslow.think.case.prediction import predict_prefill
from unslow.think.case.work import Cure, prompt_speed
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import ask_for, cite, cite_comparison, cite_remarks
from unslow.think.report import Cost

ENOUGH = 512  # Tokens: the default of llama.cpp; a usual GPU gains little from more
FEW_ROWS = 16  # Of a matrix: kernels work on tiles of about so many
FAR_BELOW = 1.5  # Times slower than prompts should be read: more than predictions of them are off by as a rule
TINY = 64
"""A micro-batch for which the weights are read so often that prompts are slow for it, whatever else they wait for."""
SMALL = 128  # A micro-batch that no runtime chooses by itself, and that costs prompts most of their speed on any GPU
NEAR = 0.3  # Of what physics gives for this micro-batch: what is slower than this waits for something else
_CURE = Cure(ubatch=ENOUGH)
_UNSET = "no larger micro-batch is set for experts whose weights are copied"
SHOW = "{try_ubatch}"


def _by_trial(case: Case) -> Found | Absent | Suspected | None:
    tried = experiment_on(case, Topic.BATCH, Topic.EXPERTS, metrics=("prefill", "first_token"))
    if tried is None or Topic.BATCH not in tried.differs:
        return None
    if not is_clear(tried):
        return Absent("a larger batch was tried and gave nothing")
    larger = _larger_is_faster(case, tried)
    if larger is None:
        return Suspected(tried.text, "which of the two speeds is that with the larger batch", SHOW)
    if not larger:
        return Absent("a smaller batch was tried and was faster")
    words = f"with a larger batch the reading of prompts is {times_as_fast(tried)}"
    return _found(words, (cite_comparison(case, tried),), gain_of(tried))


def _larger_is_faster(case: Case, tried: Comparison) -> bool | None:
    """As the two sides tell it; where only one names a size, held against the one that is set, or the usual."""
    more, (slow, fast) = slow_side_has_more(tried, Topic.BATCH), counts_of(tried, Topic.BATCH)
    if more is not None or not (slow or fast):
        return None if more is None else not more
    usual = case.runtime.ubatch.value_or(ENOUGH)
    return fast > usual if fast else slow < usual


def _by_experts(case: Case) -> Found | None:
    """Experts in the host's memory are copied for every micro-batch: with a small one, prompts wait for that."""
    ubatch, words = case.runtime.ubatch, _UNSET
    away = sent_away(case).of_layers or remarks_on(case, Topic.EXPERTS_ON_CPU)
    if not away or not names_phase(case, "prefill") or remarks_on(case, Topic.COPIES_TO_GPU):
        return None
    if isinstance(ubatch, Known) and ubatch.value <= ENOUGH:
        words = f"only {ubatch.value} tokens of a prompt share each copy of the experts' weights"
        return _found(words, (cite(case, "runtime.ubatch"),), None)._replace(explains=("prefill_pcie_bound",))
    said = [r for r in case.account.remarks.value_or(()) if r.topic is Topic.BATCH_UNSET]
    return _found(f"{words}: {said[0].text}", cite_remarks(case, said[:1]), None) if said else None


def _by_size(case: Case) -> Found | Absent | Suspected:
    size, path = _size(case)
    if size >= ENOUGH:
        return Absent(f"{size} tokens of a prompt are read at once")
    words = f"only {size} tokens of a prompt are read at once"
    evidence = (cite(case, path, f"{ENOUGH} is usual"),)
    speed = prompt_speed(case)
    if isinstance(speed, Unknown):
        if size <= SMALL and names_phase(case, "prefill") and not cpu_computes(case):
            return _found(words, evidence, None)
        return Suspected(words, "run.long_prompt", SHOW)
    as_set, usual = predict_prefill(case, Cure(ubatch=size)), predict_prefill(case, _CURE)
    if isinstance(as_set, Unknown) or isinstance(usual, Unknown):
        return Suspected(words, "run.long_prompt", SHOW)
    measured, now, then = speed.value, as_set.tokens_per_s.mid, usual.tokens_per_s.mid
    if size > TINY and measured < NEAR * now:
        allows = f"which allows {now:.0f} tokens per second"
        return Absent(f"{words}, {allows}, and it reads {measured:.0f}: it waits for something else")
    gains_nothing = then < WORTH_COMPARING * now
    if size <= FEW_ROWS and gains_nothing and then >= FAR_BELOW * measured:
        # Kernels for matrices are left idle by a few rows, more than physics knows: half of the gap is taken for that
        gain = (then / measured) ** 0.5
        because = f"{words}, too few to keep matrix kernels busy; {ENOUGH} would be faster"
    elif gains_nothing:
        return Absent(f"{words}, and more would gain next to nothing here")
    elif then < WORTH_COMPARING * measured:
        return Absent(f"{words}, and it reads {measured:.0f} tokens per second all the same")
    else:
        gain = then / max(now, measured)  # the ratio of two predictions is surer than either
        because = f"{words}; {ENOUGH} would be {gain:.1f} times as fast"
    found = _found(because, evidence, gain)
    return found._replace(lost=Cost(seconds=(1 - 1 / gain) / measured, per="prompt_token"))


def _size(case: Case) -> tuple[int, str]:
    """Tokens of a micro-batch, and where that was read; a batch that is smaller than a micro-batch cuts it."""
    runtime = case.runtime
    facts = {"runtime.ubatch": runtime.ubatch, "runtime.batch": runtime.batch}
    facts |= {"runtime.max_batched_tokens": runtime.max_batched_tokens}
    known = {path: fact.value for path, fact in facts.items() if isinstance(fact, Known)}
    if not known:
        return runtime.ubatch.need(), ""
    path = min(known, key=lambda p: known[p])
    if path == "runtime.batch" and known[path] >= ENOUGH:  # it only bounds the micro-batch from above
        return ask_for(case, "runtime.ubatch", SHOW), "runtime.ubatch"
    return known[path], path


def _found(because: str, evidence: Citations, speedup: float | None) -> Found:
    change = Knob.BATCH.to(ENOUGH, "more tokens share each pass over the weights")
    return Found(because, evidence, _CURE, (Remedy(change, _CURE, "a larger compute buffer"),), speedup=speedup)


CAUSE = Cause(
    title="Prompts are read in parts too small",
    phase="prefill",
    needs=(
        ("runtime.ubatch", "runtime.batch", "runtime.max_batched_tokens", "account.comparisons", "account.remarks"),
    ),
    check=check_by(_by_trial, _by_experts, _by_size),
    explains=("prefill_pcie_bound",),
    ask=SHOW,
)

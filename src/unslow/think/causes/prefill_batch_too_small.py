"""Prompts are read in parts so small that the weights are read over and over.

## Why it is slow
All tokens of a micro-batch share one pass over the weights. With a few tokens in each, a prompt costs as many passes
as it has parts, and the matrix units of the GPU stay idle.

## How to confirm
`llama-bench -p 2048 -n 0 -ub 64,512,2048` grows with the micro-batch. In vLLM the bound is `--max-num-batched-tokens`.

## How to fix
Raise the micro-batch (`-ub`, and `-b` at least as large; `num_batch`; `--max-num-batched-tokens`) as far as GPU memory
allows. 512 is enough for most GPUs, 2048 for the largest and where weights cross a link.

## Safety
Answers do not change. The compute buffer grows with the micro-batch.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.adapt.account import gain_of, remarks_on, times_as_fast
from unslow.think.adapt.bandwidth import device_bandwidth
from unslow.think.adapt.experiments import experiment_on, is_clear, names_phase
from unslow.think.adapt.prompt_speed import prompt_speed
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.vram import gpus_used
from unslow.think.adapt.who_computes import cpu_computes
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_comparison, cite_remarks, first_to_decide
from unslow.think.report import Evidence

ENOUGH = 512
SMALL = 128
"""A micro-batch that no runtime chooses by itself, and that costs prompts most of their speed on any GPU."""
NEAR = 0.25
"""Of what reading the weights for each micro-batch allows: nearer than this, the reads are what it waits for."""
_UNSET = "no larger micro-batch is set for experts whose weights are copied"
SHOW = "`llama-bench -m MODEL -p 2048 -n 0 -ub 64,256,512,2048`"


def check(case: Case) -> Found | Absent | Suspected:
    """Look for a trial, then for a small micro-batch and prompts that are bound by its reads."""
    return first_to_decide(case, _by_trial, _by_experts, _by_size)


def _by_trial(case: Case) -> Found | Absent | None:
    tried = experiment_on(case, Topic.BATCH, Topic.EXPERTS, metrics=("prefill", "first_token"))
    if tried is None or Topic.BATCH not in tried.differs:
        return None
    if not is_clear(tried):
        return Absent("a larger batch was tried and gave nothing")
    words = f"with a larger batch the reading of prompts is {times_as_fast(tried)}"
    return _found(words, (cite_comparison(case, tried),), gain_of(tried))


def _by_experts(case: Case) -> Found | None:
    """Experts in the host's memory are copied for every micro-batch: with a small one, prompts wait for that."""
    ubatch, words = case.runtime.ubatch, _UNSET
    away = case.runtime.tensor_overrides.value_or([]) or remarks_on(case, Topic.EXPERTS_ON_CPU)
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
    if isinstance(speed, Unknown) or cpu_computes(case) is not False:
        if size <= SMALL and names_phase(case, "prefill") and not cpu_computes(case):
            return _found(words, evidence, None)
        return Suspected(words, "the speed of a long prompt with a larger micro-batch", SHOW)
    allowed = size * _reads_per_s(case)
    if speed.value < NEAR * allowed:
        return Absent(f"reading weights would allow {allowed:.0f} tokens per second, and it reads {speed.value:.0f}")
    return _found(f"{words}, which allows {allowed:.0f} tokens per second", evidence, None)


def _size(case: Case) -> tuple[int, str]:
    """Tokens of a micro-batch, and where that was read; a batch that is smaller than a micro-batch cuts it."""
    runtime = case.runtime
    facts = {"runtime.ubatch": runtime.ubatch, "runtime.batch": runtime.batch}
    facts |= {"runtime.max_batched_tokens": runtime.max_batched_tokens}
    known = {path: fact.value for path, fact in facts.items() if isinstance(fact, Known)}
    if not known:
        return runtime.ubatch.need(), ""
    path = min(known, key=lambda p: known[p])
    return known[path], path


def _reads_per_s(case: Case) -> float:
    """Passes over all layers that the memory of the GPUs allows in a second."""
    shape = read_shape(case)
    return min(device_bandwidth(g)[0] for g in gpus_used(case)) / (shape.layers * shape.layer_bytes)


def _found(because: str, evidence: tuple[Evidence, ...], speedup: float | None) -> Found:
    change = Knob.BATCH.to(ENOUGH, "more tokens share each pass over the weights")
    return Found(because, evidence, remedies=(Remedy(change, None, "a larger compute buffer"),), speedup=speedup)


CAUSE = Cause(
    title="Prompts are read in parts too small",
    phase="prefill",
    needs=(
        ("runtime.ubatch", "runtime.batch", "runtime.max_batched_tokens", "account.comparisons", "account.remarks"),
    ),
    check=check,
    ask=SHOW,
)

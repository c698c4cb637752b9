"""The micro-batch is so small that prefill reads the weights over and over.

## Why it is slow
All tokens of a micro-batch share one pass over the weights. With only a few tokens in each, a prompt costs as many
passes as it has micro-batches, and the GPU's matrix units stay idle.

## How to confirm
The speed of `llama-bench -m MODEL -p 2048 -n 0 -ub 64,512,2048` grows with the micro-batch, and prefill of a long
prompt is about as fast as physics predicts for the configured micro-batch.

Guides say that llama.cpp's `-n` is the batch size, but `-n` is the number of tokens to generate: the batch is `-b`, and
the micro-batch that is computed at once is `-ub`.

## What it is not
Prefill that is far slower than its micro-batch allows: it waits for something else. Nor a micro-batch of 512 on a
typical GPU.

## How to fix
Raise the micro-batch as far as VRAM allows: 512 is enough for most GPUs, 2048 for the largest and where weights cross
a link. llama.cpp: `-ub 512`, and `-b` at least as large; Ollama: `num_batch`; LM Studio: `evalBatchSize`; vLLM:
`--max-num-batched-tokens`; SGLang: `--chunked-prefill-size`; MLX: `--prefill-step-size`. Transformers reads the whole
prompt at once.

## Safety
Answers do not change. The compute buffer grows with the micro-batch.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known, Unknown
from unslow.think.case.cure import Cure
from unslow.think.case.narrative import WORTH_COMPARING, counts_of, is_clear, slow_side_has_more, times_as_fast
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Route, Suspected, all_of, finding
from unslow.think.report import Cost

ENOUGH = 512  # Tokens: the default of llama.cpp; a typical GPU gains little from more
FEW_ROWS = 16  # Rows of a matrix: kernels work on tiles of about this size
FAR_BELOW = 1.5  # Times slower than predicted: more than prefill predictions are usually off by
TINY = 64  # Tokens: with fewer, the repeated reads of the weights slow prefill down whatever else it waits for
SMALL = 128  # Tokens: no runtime chooses so few on its own, and prefill loses most of its speed on any GPU
NEAR = 0.3  # Of what physics predicts for this micro-batch: prefill that is slower waits for something else
PAGED = 2048  # Tokens: the least that vLLM and SGLang take by default; answers that go on have their part of it
CURE = Cure(ubatch=ENOUGH)
FIX = Remedy(Knob.BATCH.to(ENOUGH, "more tokens share each pass over the weights"), CURE, "a larger compute buffer")
SHOW = "{try_ubatch}"


def two_batch_sizes(case: CaseView) -> Found | Absent | Suspected | None:
    """A user compared two batch sizes: which one is faster."""
    tried = case.narrative.experiment_on(Topic.BATCH, Topic.EXPERTS, metrics=("prefill", "first_token"))
    if tried is None or Topic.BATCH not in tried.differs:
        return None
    if not is_clear(tried):
        return Absent("a larger batch was tried and was not faster")
    slow_has_more, (slow, fast) = slow_side_has_more(tried, Topic.BATCH), counts_of(tried, Topic.BATCH)
    if slow_has_more is None and (slow or fast):  # the other side has the size that is set
        usual = case.speed.ubatch_tokens
        slow_has_more = fast <= usual if fast else slow >= usual
    if slow_has_more is None:
        return Suspected(tried.text, "which of the two speeds is with the larger batch", SHOW)
    if slow_has_more:
        return Absent("a smaller batch was tried and was faster")
    return finding(case, f"prefill is {times_as_fast(tried)} with a larger batch", cure=CURE, fixes=[FIX], trial=tried)


def copies_of_experts(case: CaseView) -> Found | None:
    """The micro-batch, where prefill is slow and experts in host memory are copied for each one."""
    if (ubatch := case.runtime.compute.ubatch.get()) is None or ubatch > ENOUGH or not _experts_slow_prefill(case):
        return None
    return finding(
        case,
        f"only {ubatch} prompt tokens share each copy of the experts' weights",
        "runtime.compute.ubatch",
        cure=CURE,
        fixes=[FIX],
        explains=("prefill_pcie_bound",),
    )


def batch_left_at_default(case: CaseView) -> Found | None:
    """A user says that no batch size is set, where prefill is slow and experts in host memory are copied."""
    # Denied or not: of a setting, "no -ub" reads as a denial
    said = [remark for remark in case.account.remarks.get() or () if remark.topic is Topic.BATCH_UNSET]
    if not said or not _experts_slow_prefill(case):
        return None
    because = f"the micro-batch is not raised although experts' weights are copied for each one: {said[0].text}"
    return finding(case, because, said[0], cure=CURE, fixes=[FIX])


def _experts_slow_prefill(case: CaseView) -> bool:
    away = case.placement.sent_to_cpu.of_layers or case.narrative.remarks_on(Topic.EXPERTS_ON_CPU)
    watched = case.narrative.remarks_on(Topic.COPIES_TO_GPU)  # then prefill_pcie_bound says it
    return bool(away) and case.narrative.names_phase("prefill") and not watched


def size_against_speed(case: CaseView) -> Found | Absent | Suspected:
    """The micro-batch, and the measured prefill speed against physics with this and with a larger one."""
    size, path = _tokens_at_once(case)
    if size >= ENOUGH:
        return Absent(f"prefill computes {size} tokens at once")
    enough = PAGED if case.engine.runs_paged else ENOUGH
    cure = Cure(ubatch=enough)
    fix = FIX._replace(change=Knob.BATCH.to(enough, FIX.change.why), cure=cure)
    words, shown = f"prefill computes only {size} tokens at once", case.cite(path, f"{enough} is usual")
    speed = case.speed.prompt_speed
    if isinstance(speed, Unknown):
        if size <= SMALL and case.narrative.names_phase("prefill") and not case.placement.cpu_computes:
            return finding(case, words, shown, cure=cure, fixes=[fix])
        return Suspected(words, "run.long_prompt", SHOW)
    as_set, usual = case.speed.predict_prefill(Cure(ubatch=size)), case.speed.predict_prefill(cure)
    if isinstance(as_set, Unknown) or isinstance(usual, Unknown):
        return Suspected(words, "run.long_prompt", SHOW)
    measured, now, then = speed.value, as_set.tokens_per_s.mid, usual.tokens_per_s.mid
    if size > TINY and measured < NEAR * now:
        return Absent(f"{words}, which allows {now:.0f} tok/s, but reaches {measured:.0f}: it waits for something else")
    gains_nothing = then < WORTH_COMPARING * now
    if size <= FEW_ROWS and gains_nothing and then >= FAR_BELOW * measured:
        # a few rows leave matrix kernels idle more than physics knows: half of the gap is assumed to be that
        gain = (then / measured) ** 0.5
        because = f"{words}, too few to keep matrix kernels busy; {enough} would be faster"
    elif gains_nothing:
        return Absent(f"{words}, but more would gain next to nothing here")
    elif measured > max(then, as_set.tokens_per_s.high):
        return Absent(f"{words}, but still reaches {measured:.0f} tok/s")
    else:
        gain = then / now  # both are off by the same, so that their ratio is more certain than either
        because = f"{words}; {enough} would be {gain:.1f} times as fast"
    lost = Cost(seconds=(1 - 1 / gain) / measured, per="prompt_token")
    return finding(case, because, shown, cure=cure, fixes=[fix], speedup=gain, lost=lost)


def _tokens_at_once(case: CaseView) -> tuple[int, str]:
    """The smallest of the sizes that limit what is computed at once, and its fact."""
    paths = ("runtime.compute.ubatch", "runtime.compute.batch", "runtime.scheduling.max_batched_tokens")
    known = {path: fact.value for path in paths if isinstance(fact := case.fact(path), Known)}
    if not known:
        return case.runtime.compute.ubatch.need(), ""
    path = min(known, key=lambda p: known[p])
    if path == "runtime.compute.batch" and known[path] >= ENOUGH:  # it only limits the micro-batch from above
        return case.ask_for("runtime.compute.ubatch", SHOW), "runtime.compute.ubatch"
    return known[path], path


CAUSE = Cause(
    title="The micro-batch is too small for prefill",
    phase="prefill",
    needs=all_of(
        "runtime.compute.ubatch or runtime.compute.batch or runtime.scheduling.max_batched_tokens or "
        "account.comparisons or account.remarks"
    ),
    routes=(
        Route("told", two_batch_sizes),
        Route("counted", copies_of_experts),
        Route("told", batch_left_at_default),
        Route("counted", size_against_speed),
    ),
    explains=("prefill_pcie_bound",),
    ask=SHOW,
)

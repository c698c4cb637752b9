"""The same model on the same machine was faster with another version of the runtime.

## Why it is slow
A release changed a kernel, a default or the way a model is placed. Nothing in the settings shows it.

## How to confirm
Run the same benchmark with both versions and nothing else changed: driver, settings, context and model file the same.
`unslow bench` keeps each run, and `unslow bench --compare` holds this one against the last.

## What it is not
A slow-down with which something else changed as well. It is the last thing to believe: most slow-downs after an update
are another cause that came with it, such as a GPU backend that is missing now, or another default context.

## How to fix
Go back to the version that was well, and report both numbers with the version boundary:
- llama.cpp: the release by its number (`b9150`), or `git bisect` between two of them with `llama-bench`
- Ollama: `curl -fsSL https://ollama.com/install.sh | OLLAMA_VERSION=VERSION sh`
- LM Studio: `lms runtime ls` lists the engines that are installed, `lms runtime select` takes an older one
- vLLM, Transformers, SGLang, MLX: `pip install vllm==VERSION`, each in its own environment

## Safety
An older version lacks the newer one's fixes, security fixes among them.
"""

import re

from unslow.facts.account import Comparison, Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.case.gpus import has_no_gpu
from unslow.think.case.narrative import (
    WORTH_COMPARING,
    compared_by,
    experiment_on,
    gain_of,
    is_clear,
    is_report,
    remarks_on,
    told_ratio,
)
from unslow.think.case.runtime import is_older
from unslow.think.case.slowness import shortfall
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks

_OTHERWISE_EXPLAINED = (
    Topic.GPU_UNUSED, Topic.GPU_LIBRARY_MISSING, Topic.GPU_LOST, Topic.SWAPPING, Topic.SHARED_MEMORY_USED,
    Topic.THROTTLED, Topic.GPU_CLOCK_LOW, Topic.WRONG_GPU,
)  # fmt: skip
"""What comes with an update more often than slower code: a GPU backend that is gone, a memory that is full."""
_WITH_EITHER = (
    "weights_spill_to_ram", "experts_on_cpu", "prefill_pcie_bound", "model_outside_envelope", "gpu_layers_set_too_low",
    "output_layer_on_cpu",
)  # fmt: skip
"""What is there with both versions, and so can't be the difference between them."""
_BISECTED = re.compile(r"(?i)bisect\w{0,10} (?:to|points?|shows?|lands?|found)|first bad commit")
_ONCE_MORE = re.compile(r"(?i)\bagain\b|\bback to\b|\bsame (?:machine|config|settings|model|flags)\b")
_WENT_BACK = re.compile(r"(?i)downgrad|roll\w{0,8} ?back|revert|\bback\b|bisect|first bad|driver")
"""Somebody tried; that an older version was well, without saying which, may be a memory of other days."""
USUAL_LOSS = 2.5  # Slower code rarely costs more; what does is more often a GPU that an update no longer uses
_VERSIONS = ("version_since", "version_before")
_ALONE = "put the rest back as it was, and run `unslow bench --compare` with both versions"


def _by_history(case: Case) -> Found | Absent | Suspected | None:
    """This program measured both versions itself, and knows what else changed in between."""
    earlier = case.run.earlier.value_or(None)
    if earlier is None or not (earlier.version and earlier.version_now):
        return None
    then, now = earlier.decode_tokens_per_s, earlier.now_tokens_per_s
    if not earlier.slower or earlier.version == earlier.version_now or not now:
        when = f" on {earlier.taken_at[:10]}" if earlier.taken_at else " before"
        return Absent(f"{now:.1f} tokens per second now, {then:.1f} with {earlier.version}{when}")
    if earlier.also_changed:
        also = ", ".join(earlier.also_changed)
        return Suspected(f"it was faster with {earlier.version}, and more changed: {also}", "run.earlier", _ALONE)
    text = f"{then:.1f} tokens per second with {earlier.version}, {now:.1f} with {earlier.version_now}"
    change = Knob.VERSION.to(earlier.version, "go back to the version that was well, and report the boundary")
    because = f"{text}, and nothing else that is known changed"
    return Found(because, (cite(case, "run.earlier", words=text),), None, (Remedy(change),), None, then / now)


def _by_speed(case: Case) -> Absent | None:
    """Nothing is lost where the speed is what the hardware gives: no version could have had more."""
    if is_report(case) or shortfall(case) != 1:
        return None
    return Absent("it is as fast as this set-up should be")


def _by_boundary(case: Case) -> Found | Absent | Suspected | None:
    known = [name for name in _VERSIONS if isinstance(getattr(case.account, name), Known)]
    trial = experiment_on(case, Topic.VERSION, Topic.DRIVER)
    if trial is None and len(known) == len(_VERSIONS):
        # Where both sides of the border are named, speeds that nothing else explains lie across it
        bare = [c for c in case.account.comparisons.value_or(()) if not c.differs and c.slow > 0]
        trial = compared_by(case, Topic.VERSION) or max(bare, key=told_ratio, default=None)
    back = [r for r in remarks_on(case, Topic.GOING_BACK_HELPS) if known or _WENT_BACK.search(r.text)]
    if not known and trial is None and not back:
        return None
    if trial and not is_clear(trial):
        return Absent(f"{trial.fast:g} and {trial.slow:g} are the same speed")
    if not has_no_gpu(case) and remarks_on(case, *_OTHERWISE_EXPLAINED) and not remarks_on(case, Topic.SAME_FOR_OTHERS):
        return Suspected("it got slower with a version, and something else was seen too", "runtime.devices", CAUSE.ask)
    loss, shown = _loss(case, trial)
    sides = tuple(cite(case, f"account.{name}") for name in known)
    if (known and shown) or len(known) == len(_VERSIONS) or back:
        found = _found(case, loss, (*sides, *shown, *cite_remarks(case, back[:1])))
        # Somebody bisected it, or measured one version, the other, and the first again
        again = [c for c in case.account.comparisons.value_or(()) if c.differs == (Topic.VERSION,)]
        tried = any(_BISECTED.search(r.text) for r in back) or any(_ONCE_MORE.search(c.text) for c in again)
        return found._replace(sure=True, explains=_WITH_EITHER) if tried else found
    if trial and told_ratio(trial) < USUAL_LOSS and Topic.VERSION in trial.differs:
        return _found(case, loss, shown)
    lacking = "the speed with the version before" if known else "which version was well, and which is not"
    return Suspected("it got slower with a version", lacking, CAUSE.ask)


def _loss(case: Case, trial: Comparison | None) -> tuple[float | None, Citations]:
    """How much was lost, and what shows it: two speeds, a factor, or others who see the same."""
    if trial and is_clear(trial):
        return gain_of(trial), (cite_comparison(case, trial),)
    slowdown = case.account.slowdown
    if isinstance(slowdown, Known) and slowdown.value >= WORTH_COMPARING:
        return slowdown.value, (cite(case, "account.slowdown"),)
    return None, cite_remarks(case, remarks_on(case, Topic.SAME_FOR_OTHERS))


def _found(case: Case, loss: float | None, evidence: Citations) -> Found:
    account = case.account
    since, before = account.version_since.value_or(""), account.version_before.value_or("")
    which = f"since {since}" if since else f"since the version after {before}" if before else "since an update"
    lost = f"{loss:.1f} times slower" if loss else "slower"
    words = f"{which} it is {lost}, and nothing else explains it"
    change = Knob.VERSION.to(before or None, "go back to the version that was well, and report the boundary")
    if is_older(since, before):
        words = f"{since} is {lost} than the newer {before}, and nothing else explains it"
        change = Knob.VERSION.to(before, "the newer version, which is faster")
    return Found(words, evidence, None, (Remedy(change),), None, loss)


CAUSE = Cause(
    title="A version of the runtime is slower",
    phase="decode",
    needs=(
        (
            "account.version_since",
            "account.version_before",
            "account.comparisons",
            "account.slowdown",
            "account.remarks",
            "run.earlier",
            "run.decode_tokens_per_s",
        ),
    ),
    check=check_by(_by_history, _by_boundary, _by_speed),
    last_resort=True,
    ask="{try_version}",
)

"""The same model on the same machine was faster with another version of the runtime.

## Why it is slow
A release changed a kernel, a default or the way a model is placed. Nothing in the settings shows it.

## How to confirm
Run the same benchmark with both versions and nothing else changed: the same driver, settings, context and model file.
`unslow bench` keeps each run, and `unslow bench --compare` compares this one with the last.

## What it is not
A slowdown with which something else changed as well. Suspect the version last: most slowdowns after an update are
another cause that came with it, such as a GPU backend that is now missing, or another default context.

## How to fix
Go back to the version that was fast, and report both numbers with the version boundary:
- llama.cpp: the release by its number (`b9150`), or `git bisect` between two of them with `llama-bench`
- Ollama: `curl -fsSL https://ollama.com/install.sh | OLLAMA_VERSION=VERSION sh`
- LM Studio: `lms runtime ls` lists the installed engines, `lms runtime select` switches to an older one
- vLLM, Transformers, SGLang, MLX: `pip install vllm==VERSION`, each in its own environment

## Safety
An older version lacks the newer one's fixes, security fixes among them.
"""

import re

from unslow.facts.account import Comparison, Topic
from unslow.facts.knob import Knob
from unslow.facts.values import Known
from unslow.think.case.engine import is_older
from unslow.think.case.narrative import WORTH_COMPARING, gain_of, is_clear, told_ratio
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Citations, Found, Route, Suspected, all_of, finding

_OTHER_SUSPECTS = (
    Topic.GPU_UNUSED, Topic.GPU_LIBRARY_MISSING, Topic.GPU_LOST, Topic.SWAPPING, Topic.SHARED_MEMORY_USED,
    Topic.THROTTLED, Topic.GPU_CLOCK_LOW, Topic.WRONG_GPU,
)  # fmt: skip
"""What comes with an update more often than slower code: a GPU backend that is missing, memory that is full."""
_WITH_EITHER = (
    "weights_spill_to_ram", "experts_on_cpu", "prefill_pcie_bound", "model_outside_envelope", "gpu_layers_set_too_low",
    "output_layer_on_cpu",
)  # fmt: skip
"""What is there with both versions, and so is not the difference between them."""
_BISECTED = re.compile(r"(?i)bisect\w{0,10} (?:to|points?|shows?|lands?|found)|first bad commit")
_ONCE_MORE = re.compile(r"(?i)\bagain\b|\bback to\b|\bsame (?:machine|config|settings|model|flags)\b")
_WENT_BACK = re.compile(r"(?i)downgrad|roll\w{0,8} ?back|revert|\bback\b|bisect|first bad|driver")
"""A user tried; that an unnamed older version was fast may be a memory of other settings."""
USUAL_LOSS = 2.5  # Slower code rarely costs more; what does is more often a GPU that an update no longer uses
_VERSIONS = ("version_since", "version_before")
_ALONE = "change everything else back, and run `unslow bench --compare` with both versions"
_GO_BACK = "go back to the version that was fast, and report the boundary"


def own_benchmarks(case: CaseView) -> Found | Absent | Suspected | None:
    """Both versions in the history of benchmarks, which also shows what else changed."""
    earlier = case.run.earlier.get()
    if earlier is None or not (earlier.version and earlier.version_now):
        return None
    then, now = earlier.decode_tokens_per_s, earlier.now_tokens_per_s
    if not earlier.slower or earlier.version == earlier.version_now or not now:
        when = f" on {earlier.taken_at[:10]}" if earlier.taken_at else " before"
        return Absent(f"{now:.1f} tok/s now, {then:.1f} with {earlier.version}{when}")
    if earlier.also_changed:
        also = ", ".join(earlier.also_changed)
        return Suspected(f"it was faster with {earlier.version}, but more changed: {also}", "run.earlier", _ALONE)
    speeds = f"{then:.1f} tok/s with {earlier.version}, {now:.1f} with {earlier.version_now}"
    return finding(
        case,
        f"{speeds}, and nothing else that is known changed",
        case.cite("run.earlier", words=speeds),
        fixes=[Knob.VERSION.to(earlier.version, _GO_BACK)],
        speedup=then / now,
    )


def said_by_person(case: CaseView) -> Found | Absent | Suspected | None:
    """Versions, two speeds, a factor or a way back that helped, in a report."""
    known = [name for name in _VERSIONS if isinstance(getattr(case.account, name), Known)]
    trial = case.narrative.experiment_on(Topic.VERSION, Topic.DRIVER)
    if trial is None and len(known) == len(_VERSIONS):  # then also two speeds that nothing else explains
        bare = [c for c in case.narrative.comparisons if not c.differs and c.slow > 0]
        trial = case.narrative.comparison_by(Topic.VERSION) or max(bare, key=told_ratio, default=None)
    back = [r for r in case.narrative.remarks_on(Topic.GOING_BACK_HELPS) if known or _WENT_BACK.search(r.text)]
    if not known and trial is None and not back:
        return None
    if trial and not is_clear(trial):
        return Absent(f"{trial.fast:g} and {trial.slow:g} are the same speed")
    is_seen_by_others = bool(case.narrative.remarks_on(Topic.SAME_FOR_OTHERS))
    if not case.gpus.has_none and case.narrative.remarks_on(*_OTHER_SUSPECTS) and not is_seen_by_others:
        because = "it got slower with a version, and something else was seen too"
        return Suspected(because, "runtime.placement.devices", CAUSE.ask)
    loss, shown = _loss(case, trial)
    if (known and shown) or len(known) == len(_VERSIONS) or back:
        sides = [case.cite(f"account.{name}") for name in known]
        # A user bisected it, or measured one version, the other, and the first again
        again = [c for c in case.narrative.comparisons if c.differs == (Topic.VERSION,)]
        sure = any(_BISECTED.search(r.text) for r in back) or any(_ONCE_MORE.search(c.text) for c in again)
        return _regression(case, loss, (*sides, *shown, *case.narrative.cite_remarks(back[:1])), sure=sure)
    if trial and told_ratio(trial) < USUAL_LOSS and Topic.VERSION in trial.differs:
        return _regression(case, loss, shown)
    lacking = "the speed with the version before" if known else "which version was fast, and which is slow"
    return Suspected("it got slower with a version", lacking, CAUSE.ask)


def expected_speed(case: CaseView) -> Absent | None:
    """Nothing is lost where decode is as fast as the hardware allows."""
    is_lost = case.narrative.is_report or case.speed.shortfall != 1
    return None if is_lost else Absent("decode is as fast as expected with these settings")


def _loss(case: CaseView, trial: Comparison | None) -> tuple[float | None, Citations]:
    """How much was lost, and what shows it: two speeds, a factor, or others who see the same."""
    if trial and is_clear(trial):
        return gain_of(trial), (case.narrative.cite_comparison(trial),)
    slowdown = case.account.slowdown.get()
    if slowdown is not None and slowdown >= WORTH_COMPARING:
        return slowdown, (case.cite("account.slowdown"),)
    return None, case.narrative.cite_remarks(case.narrative.remarks_on(Topic.SAME_FOR_OTHERS))


def _regression(case: CaseView, loss: float | None, shown_by: Citations, *, sure: bool = False) -> Found:
    since, before = case.account.version_since.get() or "", case.account.version_before.get() or ""
    which = f"since {since}" if since else f"since the version after {before}" if before else "since an update"
    slower = f"{loss:.1f} times slower" if loss else "slower"
    because, change = f"{which} it is {slower}", Knob.VERSION.to(before or None, _GO_BACK)
    if is_older(since, before):
        because = f"{since} is {slower} than the newer {before}"
        change = Knob.VERSION.to(before, "upgrade to the newer version, which is faster")
    return finding(
        case,
        f"{because}, and nothing else explains it",
        shown_by,
        fixes=[change],
        speedup=loss,
        sure=sure,
        explains=_WITH_EITHER if sure else None,
    )


CAUSE = Cause(
    title="A version of the runtime is slower",
    phase="decode",
    needs=all_of(
        "account.version_since or account.version_before or account.comparisons or account.slowdown or "
        "account.remarks or run.earlier or run.decode_tokens_per_s"
    ),
    routes=(Route("measured", own_benchmarks), Route("told", said_by_person), Route("measured", expected_speed)),
    last_resort=True,
    ask="{try_version}",
)

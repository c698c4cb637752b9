"""The same model on the same machine was faster with another version of the runtime.

## Why it is slow
A release changed a kernel, a default or the way a model is placed. Nothing in the settings shows it.

## How to confirm
Run the same benchmark with both versions (`llama-bench`, `ollama run --verbose`) and nothing else changed: driver,
settings, context and model file the same. It is the last thing to believe: most slow-downs after an update are another
cause that came with it, such as a GPU backend that is missing now, or another default context.

## How to fix
Go back to the version that was well, and report both numbers with the version boundary.

## Safety
An older version lacks the newer one's fixes, security fixes among them.
"""

from unslow.facts.account import Comparison, Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.account import WORTH_COMPARING, compared_by, gain_of, ratio, remarks_on
from unslow.think.adapt.experiments import experiment_on, is_clear
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, cite
from unslow.think.causes._routes import cite_comparison, cite_remarks, first_to_decide
from unslow.think.report import Evidence

_OTHERWISE_EXPLAINED = (Topic.GPU_UNUSED, Topic.GPU_LIBRARY_MISSING, Topic.GPU_LOST)
"""What comes with an update more often than slower code: a GPU backend that is gone."""
_VERSIONS = ("version_since", "version_before")


def check(case: Case) -> Found | Absent | Suspected:
    """Look for a version boundary, and for a loss that was measured across it."""
    return first_to_decide(case, _by_boundary)


def _by_boundary(case: Case) -> Found | Absent | Suspected | None:
    known = [name for name in _VERSIONS if isinstance(getattr(case.account, name), Known)]
    trial = _trial(case, both=len(known) == len(_VERSIONS))
    if not known and trial is None:
        return None
    if trial and not is_clear(trial):
        return Absent(f"{trial.fast:g} and {trial.slow:g} are the same speed")
    if remarks_on(case, *_OTHERWISE_EXPLAINED) and not remarks_on(case, Topic.SAME_FOR_OTHERS):
        return Suspected("it got slower with a version, and the GPU is said to be unused", "runtime.devices", CAUSE.ask)
    loss, shown = _loss(case, trial)
    if known and (shown or len(known) == len(_VERSIONS)):
        return _found(case, loss, (*(cite(case, f"account.{name}") for name in known), *shown))
    lacking = "the speed with the version before" if known else "which version was well, and which is not"
    return Suspected("it got slower with a version", lacking, CAUSE.ask)


def _trial(case: Case, *, both: bool) -> Comparison | None:
    """Two speeds across the border; where both its sides are named, speeds that nothing else explains lie across it."""
    alone = experiment_on(case, Topic.VERSION, Topic.DRIVER)
    if alone or not both:
        return alone
    bare = [c for c in case.account.comparisons.value_or(()) if not c.differs and c.slow > 0]
    return compared_by(case, Topic.VERSION) or max(bare, key=ratio, default=None)


def _loss(case: Case, trial: Comparison | None) -> tuple[float | None, tuple[Evidence, ...]]:
    """How much was lost, and what shows it: two speeds, a factor, or others who see the same."""
    if trial and is_clear(trial):
        return gain_of(trial), (cite_comparison(case, trial),)
    slowdown = case.account.slowdown
    if isinstance(slowdown, Known) and slowdown.value >= WORTH_COMPARING:
        return slowdown.value, (cite(case, "account.slowdown"),)
    return None, cite_remarks(case, remarks_on(case, Topic.SAME_FOR_OTHERS))


def _found(case: Case, loss: float | None, evidence: tuple[Evidence, ...]) -> Found:
    account = case.account
    since, before = account.version_since.value_or(""), account.version_before.value_or("")
    which = f"since {since}" if since else f"since the version after {before}"
    lost = f"{loss:.1f} times slower" if loss else "slower"
    change = Knob.VERSION.to(before or None, "go back to the version that was well, and report the boundary")
    return Found(f"{which} it is {lost}, and nothing else explains it", evidence, None, (Remedy(change),), None, loss)


CAUSE = Cause(
    title="A version of the runtime is slower",
    phase="decode",
    needs=(("account.version_since", "account.version_before", "account.comparisons", "account.slowdown"),),
    check=check,
    last_resort=True,
    ask="the same `llama-bench -m MODEL` (or `ollama run MODEL --verbose`) with the old and the new version",
)

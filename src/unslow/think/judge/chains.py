"""Symptoms tied to their cause: which findings follow from which, and which are no findings at all."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unslow.facts.snapshot import Case
from unslow.think.case.narrative import is_report
from unslow.think.case.prediction import Prediction, host_share, predict
from unslow.think.case.slowness import WORTH_NAMING
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.pricing import UNSEEN
from unslow.think.report import Finding

Answers = dict[str, Found | Absent | CannotTell]

OF_THE_GPU = ("gpu_held_at_low_clocks", "gpu_power_capped", "gpu_thermal_throttling")
"""What slows the GPU itself: where it waits for the CPU, low clocks are how it waits."""
OF_MEMORY = (
    "context_larger_than_needed",
    "gpu_architecture_unsupported",
    "gpu_layers_set_too_low",
    "kv_cache_outgrows_vram",
    "model_outside_envelope",
    "parallel_slots_inflate_kv",
    "wrong_device_selected",
)
"""What makes a model ask for more memory than there is, or for a device that can't run it."""
LEAVE_THE_GPU_OUT = ("gpu_architecture_unsupported", "gpu_backend_not_loaded", "gpu_layers_set_too_low")
"""Why the CPU computes what a GPU could: what slows that CPU comes after, also where the GPU's speed is not known."""
STARVED = 0.5  # Of a token's time in the host's memory and layers: beyond it, the GPU waits longer than it works


def settled(case: Case, answers: Answers, now: Prediction | None) -> Answers:
    """The answers without symptoms, and without last resorts where something else explains the same loss."""
    share, causes = host_share(now) if now else 0.0, all_causes()
    if share >= STARVED:
        waits = Absent(f"the GPU waits for the CPU, which takes {share:.0%} of a token: low clocks are how it waits")
        answers = {n: waits if n in OF_THE_GPU and isinstance(a, Found) else a for n, a in answers.items()}
    found = {n: a for n, a in answers.items() if isinstance(a, Found) and not causes[n].last_resort}
    resorts = [n for n, a in answers.items() if isinstance(a, Found) and causes[n].last_resort and not a.sure]
    explained = {n: next((o for o in found if _can_explain(case, o, found[o], n, now)), None) for n in resorts}
    titles = {n: causes[by].title for n, by in explained.items() if by}
    return answers | {n: Absent(f"{title[0].lower()}{title[1:]}, which explains it") for n, title in titles.items()}


def _can_explain(case: Case, name: str, found: Found, resort: str, now: Prediction | None) -> bool:
    """Whether a loss that was measured may be this one's: not where it is of another phase, nor known to cost little.

    A person who only tells tells of one thing, so that whatever was found is what they mean.
    """
    if is_report(case):
        return True
    if all_causes()[name].phase != all_causes()[resort].phase:
        return False
    if found.speedup is not None:
        return found.speedup >= WORTH_NAMING
    then = predict(case, found.cure) if found.cure else None
    if now is None or not isinstance(then, Prediction):
        return True
    gain = now.seconds.mid / then.seconds.mid
    return gain <= UNSEEN or gain >= WORTH_NAMING  # of what physics does not see, any loss may be


def can_fail_a_load(name: str) -> bool:
    """Whether a cause can be why a model does not load at all: one of loading, or of what asks for too much memory."""
    causes = all_causes()
    return causes[name].phase == "load" or name in OF_MEMORY or "memory_allocation_failed" in causes[name].explains


def consequences(found: dict[str, Found], order: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What each finding explains, through others too, the nearest first; never in a circle.

    Where two explain one another, the one that comes first in `order` is the cause.
    """
    reached: dict[str, set[str]] = {name: set() for name in found}
    for name in order:
        said = found[name].explains
        direct = all_causes()[name].explains if said is None else said
        for other in sorted(e for e in direct if e in found):
            if other != name and name not in reached[other]:
                after = {other, *reached[other]}
                for before in (b for b in found if b == name or name in reached[b]):
                    reached[before] |= after
    depth = {name: sum(name in others for others in reached.values()) for name in found}
    return {name: tuple(sorted(others, key=lambda o: (depth[o], o))) for name, others in reached.items()}


class Chain(NamedTuple):
    """A root cause and what follows from it, in the order of what follows from what."""

    root: Finding
    after: tuple[Finding, ...] = ()


def chains_of(findings: Sequence[Finding]) -> list[Chain]:
    """The findings as chains, in the order of their roots; what two roots explain stands with the first."""
    explained = {e for f in findings for e in f.explains}
    by_name, told = {f.cause: f for f in findings}, set[str]()
    chains = []
    for root in (f for f in findings if f.cause not in explained):
        after = [by_name[e] for e in root.explains if e in by_name and e not in told]
        told.update(f.cause for f in after)
        chains.append(Chain(root, tuple(after)))
    return chains

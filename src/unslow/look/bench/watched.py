"""An answer, and what the processors did meanwhile."""

from typing import NamedTuple

import msgspec

from unslow.look.bench.guest import Plan, Target, Timed
from unslow.look.bench.processors import run_delay, sample_here, use_between
from unslow.look.bench.timed import as_far_as_it_came
from unslow.look.bench.watching import note_completion
from unslow.look.kernel.cpu_time import CpuUse
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System

WARM_UP_TOKENS = 16


class Watched(NamedTuple):
    """A completion and what the processors did meanwhile."""

    timed: Timed
    use: CpuUse | LookError
    start_s: float | None
    """By the sampler's clock; None where nobody looked at it."""
    whole: bool = True
    """Whether all of it came before the time was up."""


def watched(system: System, target: Target, plan: Plan, wanted: tuple[str, int], sampler: Sampler) -> Watched:
    """The answer to a prompt, of so many tokens, with a look at the processors before and after it."""
    before, waited_before = sample_here(system, target), run_delay(system, target.pid)
    start_s = sampler.clock()
    timed, whole = as_far_as_it_came(system, target, plan, wanted)
    after, waited_after = sample_here(system, target), run_delay(system, target.pid)
    if waited_before is not None and waited_after is not None:
        waited = max(0.0, waited_after - waited_before)
        timed = timed._replace(completion=msgspec.structs.replace(timed.completion, waited_s=waited))
    return Watched(timed, use_between(system, target, before, after), start_s, whole)


def warmed_up(system: System, target: Target, plan: Plan, prompt: str) -> Watched:
    """A first, short answer; only the sampler looks on, because it counts for nothing where there is time for more."""
    timed, whole = as_far_as_it_came(system, target, plan, (prompt, WARM_UP_TOKENS))
    return Watched(timed, LookError("nobody looked"), None, whole)


def note(sampler: Sampler, seen: Watched) -> None:
    """Tell the sampler when it was; a warm-up that has to do ended just now."""
    completion = seen.timed.completion
    if seen.start_s is None:
        note_completion(sampler, completion, sampler.clock() - (completion.client_total_s or 0.0))
    else:
        note_completion(sampler, completion, seen.start_s)

"""The machine of a server for a few seconds, without sending anything: who else uses its processors and its GPUs.

Where requests of others are answered, what the devices do meanwhile counts as what they do while generating.
"""

from itertools import pairwise
from typing import Any, NamedTuple

from unslow.facts.bounded import bounded
from unslow.facts.run import Run
from unslow.facts.telemetry import Span
from unslow.facts.values import not_found
from unslow.look.bench.completions import Progress
from unslow.look.bench.guest import Plan, Target
from unslow.look.bench.processors import processors, sample_here, use_between
from unslow.look.bench.trials._work import Work, read_work
from unslow.look.bench.watching import is_here, watching, with_telemetry
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System, unknown

SECONDS = 3.0
SLICES = 6
"""Looks at the work come this often, as requests come in waves: a wave that ends before the last look has still run."""
QUESTION = "telemetry of the host"
_IDLE = not_found("no request was being answered meanwhile", "watch it while it answers one, or let it be measured")
_WAVES = not_found("requests were answered for a part of the time only")
_NO_GPU = not_found("no driver of a GPU was there to be watched", "run `nvidia-smi dmon -s pucm` meanwhile")


def perform(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """What the machine did; its GPUs under load only where there was one."""
    if not is_here(target):
        elsewhere = LookError("the server runs on another machine", how_to_get="run unslow there")
        return Run(**dict.fromkeys(("others_cpus", "busiest_others", "gpus", "telemetry"), unknown(elsewhere)))
    progress(f"watching the machine for {min(SECONDS, plan.watch_s):.0f} s", 0.0)
    with watching(system, target) as sampler:
        run = _watched(system, target, min(SECONDS, plan.watch_s), sampler)
    return bounded(with_telemetry(system, run, sampler, QUESTION))


class _Look(NamedTuple):
    at_s: float
    work: Work | None


def _watched(system: System, target: Target, seconds: float, sampler: Sampler) -> Run:
    before, looks = sample_here(system, target), [_Look(sampler.clock(), _work(system, target))]
    for _ in range(SLICES):
        system.sleep(seconds / SLICES)
        work = _work(system, target) if looks[-1].work else None  # a server that failed once is not waited for again
        looks.append(_Look(sampler.clock(), work))
    after = sample_here(system, target)
    decoded = [(one.at_s, two.at_s) for one, two in pairwise(looks) if _decodes(one, two, looks)]
    for start_s, end_s in decoded:
        if end_s > start_s:
            sampler.note(Span(phase="decode", start_s=start_s, end_s=end_s))
    all_the_while = len(decoded) == SLICES
    when = "while generating" if all_the_while else "while it was watched"
    facts: dict[str, Any] = processors([use_between(system, target, before, after)], when)
    if not all_the_while:
        facts["own_cpus"] = _WAVES if decoded else _IDLE
    return Run(gpus=_NO_GPU if decoded else _IDLE, **facts)


def _decodes(one: _Look, two: _Look, looks: list[_Look]) -> bool:
    """Whether tokens came between two looks; a slow server that works at both may count its next one later."""
    if generates(one.work, two.work):
        return True
    goes_on = one.work and two.work and one.work.running and two.work.running and two.work.tokens is not None
    return bool(goes_on) and generates(looks[0].work, looks[-1].work)


def _work(system: System, target: Target) -> Work | None:
    try:
        return read_work(system, target)
    except LookError:
        return None


def generates(before: Work | None, after: Work | None) -> bool:
    """Whether tokens were generated between two looks: by the growth of a counter, else by requests at both ends."""
    if before is None or after is None:
        return False
    if before.tokens is not None and after.tokens is not None:
        return after.tokens > before.tokens
    if not before.running or not after.running:
        return False
    if before.decoding is not None and after.decoding is not None:
        return any(d.tokens for d in before.decoding.values()) and any(d.tokens for d in after.decoding.values())
    return bool(before.tokens_per_s and after.tokens_per_s)

"""The machine of a server for a few seconds, without sending anything: who else uses its processors and its GPUs.

Where requests of others are answered all the while, what the devices do counts as what they do while generating.
"""

from typing import Any

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
QUESTION = "telemetry of the host"
_IDLE = not_found("no request was being answered all the while", "watch it while it answers one, or let it be measured")

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


def _watched(system: System, target: Target, seconds: float, sampler: Sampler) -> Run:
    before, work_before, start_s = sample_here(system, target), _work(system, target), sampler.clock()
    system.sleep(seconds)
    end_s, work_after, after = sampler.clock(), _work(system, target), sample_here(system, target)
    is_busy = generates(work_before, work_after)
    if is_busy and end_s > start_s:
        sampler.note(Span(phase="decode", start_s=start_s, end_s=end_s))
    when = "while generating" if is_busy else "while it was watched"
    facts: dict[str, Any] = processors([use_between(system, target, before, after)], when)
    if not is_busy:
        facts["own_cpus"] = _IDLE
    return Run(gpus=_NO_GPU if is_busy else _IDLE, **facts)


def _work(system: System, target: Target) -> Work | None:
    try:
        return read_work(system, target)
    except LookError:
        return None


def generates(before: Work | None, after: Work | None) -> bool:
    """Whether tokens were generated at both ends, and more of them in between."""
    if before is None or after is None or not before.running or not after.running:
        return False
    if before.decoding is not None and after.decoding is not None:
        return any(d.tokens for d in before.decoding.values()) and any(d.tokens for d in after.decoding.values())
    if before.tokens is not None and after.tokens is not None:
        return after.tokens > before.tokens
    return bool(before.tokens_per_s and after.tokens_per_s)

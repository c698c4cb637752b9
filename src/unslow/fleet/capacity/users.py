"""How many users each group of like instances serves at a goal, what ends it, and what the next GPU buys."""

import math
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.commands._output import Progress
from unslow.facts.errors import UserError
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.values import Known, Unknown, estimated_fact
from unslow.fleet.actions import IN_PART
from unslow.fleet.capacity import limits
from unslow.fleet.capacity.curves import read_curves
from unslow.fleet.capacity.limits import Extrapolation, InstanceGroup, Limit, Seconds, limit_by_seconds, tightest_limit
from unslow.fleet.capacity.report import Basis, CapacityReport, CapacityRow, CurvePoint, Goal, Step
from unslow.fleet.members import read_members
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.settings import FleetSettings, seconds_of
from unslow.think.case.sharing import SPREAD
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.report import Range

DEFAULT_GOAL = "20 tok/s"
"""Some four times as fast as people read: 238 words a minute (Brysbaert, 2019), at four tokens for three words."""
SPAN_S = 86400.0
SHORTEST_SPAN_S, LONGEST_SPAN_S = 60.0, 31 * 86400.0
FASTEST, LONGEST_FIRST_S = 1e6, 86400.0
_SPEED = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*+(?:(?:tok(?:en)?s?|t)\s*(?:/|per)\s*(?:s|sec|second))?\s*")
_SECONDS = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*+(ms|s)?\s*")
MOST_GROUPS_BY_PHYSICS = 200
"""Groups, the largest first, for which physics is asked, which takes some tenths of a second for each."""
UNEVEN = 1.5  # Times the mean: from there on it is worth a word that the load is not balanced
NEARLY = 0.1  # Of a request: a curve that ends so little below a whole number ends there
INSIDE = 1.1  # Times the highest measured load: as far as a bin reaches
MOST_REQUESTS_BY_PHYSICS = 512.0  # Requests at once that physics alone is asked about
_ALONE = 1.5  # Requests at once: a bin below it is that of one request alone
_FIRST_UNTOLD = "time to first token unknown: only the decode speed is checked against the goal"
_FIRST_UNSEEN = "time to first token not measured: only the decode speed is checked against the goal"
_DOUBT = 1.25
"""Of what physics says that twice the GPUs gain: as the intervals of several GPUs in the catalog of speeds are."""
_DOUBLINGS = 10  # Of one request: 512 at once are the most that physics is asked about
_ROOM = 0.9  # Of a card that vLLM, SGLang and TGI fill with weights and cache unless they are told otherwise
_MOST_GPUS = 8  # Cards that one machine joins; tensor parallel over more than one machine is another matter


class Capacity(NamedTuple):
    """What one instance serves; without a limit it can't be told, and `because` says why."""

    basis: Basis
    limit: Limit | None = None
    because: str = ""
    gaps: Extrapolation | None = None
    firsts: Extrapolation | None = None
    steps: Seconds | None = None  # By physics alone, where nothing was measured
    others: tuple[Limit, ...] = ()  # Cache and places, where something tells them
    farther: float | None = None
    """How many times the highest measured load the answer lies, where it is simulated from measurements."""
    notes: tuple[str, ...] = ()

    def users(self, instances: int) -> Range | None:
        """Of so many instances together, each with whole requests."""
        return whole_users(self.limit, instances) if self.limit else None


def capacity_report(request: FleetSettings, goal: Goal, progress: Progress, span_s: float = SPAN_S) -> CapacityReport:
    """The table of a fleet."""
    began = time.monotonic()
    with Prometheus(request.access, progress.say) as prometheus:
        progress.step("finding the instances", 0.0)
        members, said = read_members(prometheus, request.options)
        curves = read_curves(
            prometheus, members, request.options, span_s, lambda text, share: progress.step(text, 0.3 + share / 2)
        )
        progress.step("estimating the capacity of each group", 0.8)
        rows = rows_of(curves.likes, goal)
        statements = tuple(dict.fromkeys((*prometheus.statements(), *said, *curves.statements)))
        progress.step("done", 1.0)
        return CapacityReport(
            unslow_version=__version__,
            prometheus=prometheus.shown_url,
            taken_at=datetime.fromtimestamp(prometheus.now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            span_s=span_s,
            queries=prometheus.queries_sent,
            seconds=time.monotonic() - began,
            complete=not any(one.kind in IN_PART for one in statements),
            goal=goal,
            statements=statements,
            rows=rows,
        )


def goal_of(speed: str | None, first_token: str | None) -> Goal:
    """From what the user wrote, such as `20 tok/s` and `2`; 20 tok/s where nothing is asked for."""
    if not speed and not first_token:
        speed = DEFAULT_GOAL
    tokens_per_s = first_token_s = None
    if speed:
        found = _SPEED.fullmatch(speed.lower())
        tokens_per_s = float(found[1]) if found else 0.0
        if not 0 < tokens_per_s <= FASTEST:
            why = f"--goal must be a speed above 0 and at most {FASTEST:,.0f} tok/s (got {speed[:40]!r})"
            raise UserError(why, 'write it as --goal "20 tok/s"')
    if first_token:
        found = _SECONDS.fullmatch(first_token.lower())
        first_token_s = float(found[1]) / (1000 if found[2] == "ms" else 1) if found else 0.0
        if not 0 < first_token_s <= LONGEST_FIRST_S:
            why = f"--first-token must be above 0 and at most {LONGEST_FIRST_S:,.0f} s (got {first_token[:40]!r})"
            raise UserError(why, "write it in seconds: --first-token 2, or 800ms")
    return Goal(tokens_per_s=tokens_per_s, first_token_s=first_token_s)


def span_of(text: str | None) -> float:
    """How far back to look, from what the user wrote."""
    span = seconds_of(text, "--span") if text else SPAN_S
    if not SHORTEST_SPAN_S <= span <= LONGEST_SPAN_S:
        raise UserError(f"--span must be between 1m and 31d (got {text})", "the default is 24h")
    return span


def rows_of(likes: Iterable[InstanceGroup], goal: Goal) -> tuple[CapacityRow, ...]:
    """One row for each group, those with most users first."""
    ordered = sorted(likes, key=lambda like: (-(like.load.mean or 0.0), -like.instances, like.model))
    return tuple(row_of(like, goal, by_physics=n < MOST_GROUPS_BY_PHYSICS) for n, like in enumerate(ordered))


def row_of(like: InstanceGroup, goal: Goal, *, by_physics: bool = True) -> CapacityRow:
    """The row of one group."""
    found = instance_capacity(like, goal, by_physics=by_physics)
    return CapacityRow(
        runtime=like.runtime,
        model=like.model,
        devices=like.devices,
        instances=like.instances,
        gpus=like.gpus_each * like.instances if like.gpus_each is not None else None,
        users_now=like.load.mean,
        users_peak=like.load.peak,
        users_at_goal=found.users(like.instances),
        basis=found.basis,
        limit=found.limit.what if found.limit else "",
        beyond=found.farther,
        points=points_of(found),
        next=next_steps(like, goal, found),
        because=found.because,
        notes=tuple(_notes(like, found)),
    )


def _notes(like: InstanceGroup, found: Capacity) -> Iterator[str]:
    yield from found.notes
    each = found.users(1)
    if each and each.mid and like.load.peak and like.load.peak > each.mid * like.instances:
        more = math.ceil(like.load.peak / each.mid) - like.instances
        needed = "1 more instance" if more == 1 else f"{more} more instances"
        yield f"the peak load exceeds the capacity at the goal: {needed} needed"
    if (like.load.uneven or 0.0) >= UNEVEN and found.limit:
        yield (
            f"uneven load: at the busiest time the fullest 10 % of instances had {like.load.uneven:.1f} times the mean "
            "number of requests; the users at the goal assume an even balance"
        )


def instance_capacity(like: InstanceGroup, goal: Goal, *, by_physics: bool = True) -> Capacity:
    """The answer for one instance of a group."""
    gaps, firsts = limits.gaps_of(like.moments), limits.first_tokens_of(like.moments)
    slots = limits.limit_by_slots(like.moments, like.places)
    others = tuple(limit for limit in (limits.limit_by_cache(like.moments), slots) if limit)
    if not gaps or (goal.tokens_per_s is None and not firsts):
        return _physics_capacity(like, goal, others, by_physics=by_physics)
    curve = limits.extrapolate(gaps, step_growth(like.case) if like.case and by_physics else None)
    until_first = limits.extrapolate(firsts) if firsts else None
    limit = tightest_limit([*others, *goal_limits(curve, until_first, goal)])
    notes = (_FIRST_UNTOLD,) if goal.first_token_s is not None and not until_first else ()
    found = Capacity("measured", limit, "", curve, until_first, others=others, notes=notes)
    first, last = curve.points[0].requests, curve.last
    if limit.mid > last * INSIDE:
        return _extrapolated_capacity(found, limit, curve)
    if limit.mid >= first - NEARLY or first < _ALONE:
        return found
    if not curve.can_extrapolate:
        because = f"only loads of about {first:.0f} concurrent requests were measured, and they miss the goal"
        return found._replace(basis="cannot_tell", limit=None, because=because)
    because = f"fewer than {first:.0f} concurrent requests per instance were never measured"
    return found._replace(basis="simulated", because=because)


def goal_limits(curve: Extrapolation, until_first: Extrapolation | None, goal: Goal) -> list[Limit]:
    """Where the speed and the first token leave the goal."""
    found = []
    if goal.tokens_per_s is not None:
        found.append(limit_by_seconds(curve.seconds, 1 / goal.tokens_per_s, limits.SPEED, curve.farthest))
    if goal.first_token_s is not None and until_first:
        found.append(limit_by_seconds(until_first.seconds, goal.first_token_s, limits.FIRST, until_first.farthest))
    return found


def _extrapolated_capacity(found: Capacity, limit: Limit, curve: Extrapolation) -> Capacity:
    if not curve.can_extrapolate:
        # One load tells no slope: the worst that can be is that a step grows as fast as the requests
        because = (
            f"only loads of about {curve.last:.0f} concurrent requests were measured, too narrow to extrapolate; an "
            f"instance serves at least {math.floor(limit.low + NEARLY)} if latency grows at most linearly"
        )
        return found._replace(basis="cannot_tell", limit=None, because=because)
    farther = limit.mid / curve.last
    how = "extrapolated from the measurements" + (" and physics" if curve.known_by_physics else "")
    if limit.what == limits.CACHE:
        how += ", with the measured KV cache per request"
    end = "; beyond that is unknown" if limit.what == limits.UNSEEN else ""
    load = f"{curve.last:.0f} concurrent requests per instance"
    because = f"{farther:.1f} times the highest measured load ({load}), {how}{end}"
    return found._replace(basis="simulated", farther=farther, because=because)


def _physics_capacity(like: InstanceGroup, goal: Goal, others: tuple[Limit, ...], *, by_physics: bool) -> Capacity:
    seen = f"only {len(like.moments)} windows with requests" if like.moments else "no requests in this time"
    few = like.without or seen
    if goal.tokens_per_s is None:
        return Capacity("cannot_tell", because=f"{few}, and time to first token is unknown")
    unknown = Unknown("too little is known about the machine for a prediction")
    step = step_seconds(like.case) if like.case and by_physics else unknown
    if isinstance(step, Unknown):
        return Capacity("cannot_tell", because=f"{few}; {step.why}")
    by_speed = limit_by_seconds(step, 1 / goal.tokens_per_s, limits.SPEED, MOST_REQUESTS_BY_PHYSICS)
    limit = tightest_limit([*others, by_speed])
    notes = (_FIRST_UNSEEN,) if goal.first_token_s is not None else ()
    return Capacity("simulated", limit, f"{few}: predicted from physics alone", steps=step, others=others, notes=notes)


def points_of(found: Capacity) -> tuple[CurvePoint, ...]:
    """What was measured, and doublings of it as far as the answer goes."""

    def point(requests: float, seconds: Sequence[float], samples: int = 0) -> CurvePoint:
        low, mid, high = seconds
        first = found.firsts.seconds(requests) if found.firsts else None
        return CurvePoint(
            requests=requests,
            tokens_per_s=Range(low=1 / high, mid=1 / mid, high=1 / low),
            first_token_s=Range(low=first[0], mid=first[1], high=first[2]) if first else None,
            basis="measured" if samples else "simulated",
            samples=samples,
        )

    if found.gaps:
        measured = [point(at.requests, (at.low_s, at.mid_s, at.high_s), at.samples) for at in found.gaps.points]
        last, end = found.gaps.last, found.limit.mid if found.limit else 0.0
        farthest = limits.FARTHEST * last
        farther = [n for n in (2 * last, farthest) if n < end]  # what the answer rests on beyond the measured
        farther += [min(end, farthest)] if end > last else []
        return (*measured, *(point(n, found.gaps.seconds(n)) for n in farther))
    if found.steps and found.limit:
        loads = [float(2**n) for n in range(_DOUBLINGS) if 2**n <= max(1.0, found.limit.high)]
        return tuple(point(n, found.steps(n)) for n in loads)
    return ()


def next_steps(like: InstanceGroup, goal: Goal, found: Capacity) -> tuple[Step, ...]:
    """What can be had, the like instance first; nothing where the capacity can't be told."""
    if found.limit is None:
        return ()
    gpus = like.gpus_each
    on = "" if not gpus else f" on {gpus} GPU{'' if gpus == 1 else 's'}"
    even = "" if like.instances == 1 else "assuming evenly balanced requests"
    users = whole_users(found.limit, 1)
    one_more = Step(what=f"one more instance{on}", gpus=gpus or 0, users=users, basis=found.basis, because=even)
    steps = [one_more, *_twice_the_gpus_step(like, goal, found)]
    if found.limit.what == limits.PLACES and found.gaps:  # a setting may gain users without any GPU
        others = [limit for limit in found.others if limit.what != limits.PLACES]
        without = tightest_limit([*others, *goal_limits(found.gaps, found.firsts, goal)])
        more = _gain(whole_users(without, like.instances), whole_users(found.limit, like.instances))
        because = f"a setting; then limited by: {without.what}"
        if more.mid > 0:
            what = "more slots on the same GPUs"
            steps.append(Step(what=what, gpus=0, users=more, basis="simulated", because=because))
    return tuple(steps)


def _twice_the_gpus_step(like: InstanceGroup, goal: Goal, found: Capacity) -> Iterator[Step]:
    """Every layer over twice as many GPUs: a step is shorter, by physics, and beside the weights is more room."""
    case, limit = like.case, found.limit
    if case is None or limit is None or limit.what == limits.UNSEEN or goal.tokens_per_s is None:
        return  # where it is not known what ends it now, nor is what twice the GPUs would gain
    twice = with_twice_the_gpus(case)
    now, then = step_seconds(case), step_seconds(twice) if twice else None
    if isinstance(now, Unknown) or then is None or isinstance(then, Unknown):
        return
    known, farthest = now, limits.FARTHEST * max(1.0, limit.mid)
    if found.gaps:
        known, farthest = found.gaps.seconds, found.gaps.farthest

    def seconds(requests: float) -> tuple[float, float, float]:
        low, mid, high = (end_s * then(requests)[1] / now(requests)[1] for end_s in known(requests))
        return low * (1 / _DOUBT), mid, high * _DOUBT

    room, more = [], cache_growth(case)
    for other in found.others:
        times = more if other.what == limits.CACHE else 1.0
        room.append(other._replace(low=other.low * times, mid=other.mid * times, high=other.high * times))
    # The first token as it is now: reading prompts gets faster too, by how much is not claimed
    prompts = msgspec.structs.replace(goal, tokens_per_s=None)
    first = goal_limits(found.gaps, found.firsts, prompts) if found.gaps else ()
    ended = tightest_limit([*room, limit_by_seconds(seconds, 1 / goal.tokens_per_s, limits.SPEED, farthest), *first])
    gpus = like.gpus_each or len(case.machine.gpus.value_or(()))
    what = f"an instance over {2 * gpus} GPUs instead of {gpus}"
    users = _gain(whole_users(ended, 1), whole_users(limit, 1))
    because = f"tensor parallel, predicted; then limited by: {ended.what}"
    yield Step(what=what, gpus=gpus, users=users, basis="simulated", because=because)


def _gain(then: Range, now: Range) -> Range:
    """What is won, end by end: both rest on the same curve, so they are wrong together."""
    won = (then.low - now.low, then.mid - now.mid, then.high - now.high)
    return Range(low=min(won), mid=won[1], high=max(won))


def whole_users(limit: Limit, instances: int) -> Range:
    """Whole requests on each of so many instances."""
    low, mid, high = (instances * math.floor(n + NEARLY) for n in (limit.low, limit.mid, limit.high))
    return Range(low=min(low, mid), mid=mid, high=max(mid, high))


def step_growth(case: CaseView) -> limits.StepGrowth:
    """How many times as long as for one request a step takes for so many; each load is worked out once."""
    times = cache(lambda users: case.sharing.times_as_long(users, case.speed.depth))
    return lambda requests: times(max(1, round(requests)))


def step_seconds(case: CaseView) -> Seconds | Unknown:
    """The seconds of a step by physics alone; Unknown where it lacks a fact."""
    alone, times = case.speed.predict(), step_growth(case)
    if not isinstance(alone, Prediction):
        return alone
    if times(1) is None:
        return Unknown("batch speed is not predictable for this case")

    def step(requests: float) -> tuple[float, float, float]:
        more = max(1.0, times(requests) or 1.0) - 1
        low, mid, high = alone.seconds
        return (low * (1 + more / SPREAD), mid * (1 + more), high * (1 + more * SPREAD))

    return step


def with_twice_the_gpus(case: CaseView) -> CaseView | None:
    """The same with every layer cut over twice as many like GPUs; None where that is not done or not known."""
    gpus, parallel = case.machine.gpus.value_or(()), case.runtime.placement.tensor_parallel.value_or(0)
    parallel = parallel or (1 if len(gpus) == 1 else 0)
    if case.runtime.name.value_or("") not in IN_BATCHES or not parallel or 2 * parallel > _MOST_GPUS:
        return None
    if len({gpu.name.value_or("") for gpu in gpus}) != 1 or len(gpus) != parallel:
        return None
    runtime = case.runtime.with_facts(tensor_parallel=estimated_fact(2 * parallel, "twice as many"))
    first = max(gpu.index for gpu in gpus) + 1
    doubled = (*gpus, *(msgspec.structs.replace(gpu, index=first + n) for n, gpu in enumerate(gpus)))
    machine = msgspec.structs.replace(case.machine, gpus=estimated_fact(doubled, "twice as many"))
    return case.replace(runtime=runtime, machine=machine)


def cache_growth(case: CaseView) -> float:
    """How many times as much cache twice the memory leaves beside the same weights; twice where nothing tells more."""
    sizes = [gpu.vram_total_bytes for gpu in case.machine.gpus.value_or(())]
    room = _ROOM * sum(size.value for size in sizes if isinstance(size, Known))
    weights = case.model.weights_bytes.value_or(0)
    return (2 * room - weights) / (room - weights) if 0 < weights < room else 2.0

"""More and more users at once, each with a prompt of their own: what do all of them get together, and what does each.

Every number of users is asked in rounds; in a round all begin at the same moment. What they get together is counted
while as many were answered at once as ever were, so that neither the start nor the last one alone counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.sweeps import Limits, until_stopped
from unslow.facts.bench import DECODE, FIRST, TOGETHER, Failure, Pass, Sweep, SweepPoint
from unslow.facts.errors import UserError
from unslow.think.stats.figures import client_decode_rate, quantile_of, waited_before_s
from unslow.think.stats.repeats import spread_of
from unslow.think.stats.users import Burst, UsersPoint, burst_of, grows_no_more, judge_users, median_burst

AXIS = "users"
OWN_SERVER = False

USUAL = (1, 2, 4, 8, 16, 32, 64)
MOST = 1024  # Each user is a thread and a connection here
_WARM_UP_TOKENS = 16


class _UserCount(NamedTuple):
    """So many users, and what came of all their requests."""

    users: int
    passes: list[Pass]
    failures: list[Failure]
    bursts: list[Burst]
    expected: float | None

    def point(self) -> UsersPoint:
        """In the numbers that decide the verdict."""
        middle = median_burst(self.bursts) if self.bursts else Burst(0.0, 0, whole=False)
        firsts = sorted(one.client_first_token_s for one in self.passes)
        asked = len(self.passes) + len(self.failures)
        return UsersPoint(
            users=self.users,
            together=middle.together,
            first_s=quantile_of(firsts, 0.5) if firsts else 0.0,
            at_once=middle.at_once,
            failed=len(self.failures) / asked if asked else 0.0,
            expected=self.expected,
            among=(min(rates), max(rates)) if (rates := [burst.together for burst in self.bursts]) else None,
        )


def sweep(bencher: Bencher, limits: Limits) -> Sweep:
    """The curve, and where it ends."""
    done: list[_UserCount] = []
    slot, bencher.slot = bencher.slot, None  # all users on one slot would be one after the other
    try:
        stopped = until_stopped(bencher, lambda: _measure_all(bencher, limits, done))
    finally:
        bencher.slot = slot
    curve = judge_users([one.point() for one in done], slots_of(bencher))
    return Sweep(axis=AXIS, points=tuple(_point(one) for one in done), stopped_early=stopped, **curve._asdict())


def slots_of(bencher: Bencher) -> int | None:
    """How many conversations the server says it answers at once; None where it does not say."""
    runtime = bencher.subject.runtime
    slots = runtime.scheduling.slots.value_or(None)
    return slots if slots is not None else runtime.scheduling.max_sequences.value_or(None)


def _measure_all(bencher: Bencher, limits: Limits, done: list[_UserCount]) -> str:
    """Into the list, so that nothing is lost on the way; why not all numbers were tried."""
    values, end_s = users_of(limits), bencher.system.clock() + limits.seconds
    bencher.progress.step("users: warming up", 0.0)
    bencher.ask(BenchWish(AXIS, min(limits.tokens, _WARM_UP_TOKENS), round=0))
    for number, users in enumerate(values):
        bencher.progress.step(f"{_users(users)} at once", number / len(values))
        one = _UserCount(users, [], [], [], None)
        done.append(one)
        start_s = bencher.system.clock()
        for repeat in range(1, max(1, limits.repeats) + 1):
            outcomes = bencher.together([BenchWish(_users(users), limits.tokens, round=repeat)] * users)
            passes = [outcome for outcome in outcomes if isinstance(outcome, Pass)]
            one.passes.extend(passes)
            one.failures.extend(outcome for outcome in outcomes if isinstance(outcome, Failure))
            if burst := burst_of(passes):
                one.bursts.append(burst)
            if one.failures or bencher.system.clock() > end_s:
                break
        if one.passes and one.bursts:
            # What physics expects of as many as are answered at once, at the depth that they were measured at
            depths = [p.prompt_tokens + p.cached_tokens + p.generated_tokens / 2 for p in one.passes]
            at_once = median_burst(one.bursts).at_once
            done[-1] = one._replace(expected=bencher.case.sharing.expected_together(at_once, sum(depths) / len(depths)))
        now = bencher.system.clock()
        if values[number + 1 :] and (why := _enough(bencher, limits, done, end_s - now, now - start_s)):
            return why
    return ""


def users_of(limits: Limits) -> list[int]:
    """The numbers of users to try; UserError where one is none that a client can be."""
    if wrong := [value for value in limits.values if not 1 <= value <= MOST]:
        raise UserError(
            f"the number of users must be between 1 and {MOST} (got {wrong[0]:g})", "for example: --sweep users=1,4,16"
        )
    return sorted({int(value) for value in limits.values}) or list(USUAL)


def _enough(bencher: Bencher, limits: Limits, done: Sequence[_UserCount], left_s: float, took_s: float) -> str:
    """Why more users need not be tried; those that were asked for are, unless the time is over."""
    points = [one.point() for one in done]
    if points[-1].failed >= 1:
        return f"all requests of {_users(points[-1].users)} failed"
    if not limits.values and (why := grows_no_more(points, slots_of(bencher))):
        return why
    needed_s = 0.0 if limits.values else took_s  # twice as many take about as long, or twice as long
    return f"more users would take longer than {limits.seconds:.0f} s" if needed_s > left_s else ""


def _point(one: _UserCount) -> SweepPoint:
    """What the report shows of it: speeds by the client's clock, which all users share."""
    label, note = _users(one.users), ""
    if one.failures:
        note = f"{len(one.failures)} failed: {one.failures[0].why}"
    elif one.bursts and not median_burst(one.bursts).whole:
        note = "too short for a steady interval: averaged over the whole time in which tokens arrived"
    if not one.bursts:
        return SweepPoint(at=one.users, label=label, failures=len(one.failures), note=note)
    firsts = sorted(p.client_first_token_s for p in one.passes)
    figures = {TOGETHER: spread_of([burst.together for burst in one.bursts]), FIRST: spread_of(firsts)}
    if rates := [rate for p in one.passes if (rate := client_decode_rate(p)) is not None]:
        figures[DECODE] = spread_of(rates)
    # How long users waited before their prompt was read: as the server says, else what reading does not explain
    waits = sorted(
        waited_before_s(p)
        if p.server_queue_s is not None
        else max(0.0, p.client_first_token_s - (p.server_prefill_s or 0.0))
        for p in one.passes
    )
    return SweepPoint(
        at=one.users,
        label=label,
        figures=figures,
        expected={TOGETHER: one.expected} if one.expected is not None else {},
        seen={
            "first_token_p50_s": quantile_of(firsts, 0.5),
            "first_token_p95_s": quantile_of(firsts, 0.95),
            "wait_p50_s": quantile_of(waits, 0.5),
            "answered_at_once": float(median_burst(one.bursts).at_once),
        },
        failures=len(one.failures),
        note=note,
    )


def _users(count: int) -> str:
    return f"{count} user{'s' if count > 1 else ''}"

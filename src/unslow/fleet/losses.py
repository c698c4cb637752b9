"""What an instance does not give: tokens per second, the GPU-hours that they take, and which causes they belong to.

The loss is what the time in which it worked would give more with what was found cured. Where users ask for no more,
they get the same sooner, and the time is free for others. It is:
- of answers, its tokens per second times (achievable / measured - 1), both for one request at the load that it had.
  Only where it is judged slow, and either slower than the achievable interval or slowed by a cause with a price:
  within the interval no more than the prices say is lost;
- of time that requests lose to loading or to their prompts, the share of their time that this is;
- of requests that wait for a place, what each would get if it had one: they get nothing now. The steps that they
  share then take longer for all, which is counted against it where physics knows by how much. It is counted where
  the queue is what is slow, and at most so much that all present requests together get what is achievable.
GPU-hours are the GPUs times the hours in which it worked times the share of the speed that is missing, so never more
than there were. Hours in which it answered nobody are counted apart: nothing is wrong with an idle GPU.
"""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.run import Traffic
from unslow.facts.values import Known
from unslow.fleet.report import Loss
from unslow.think.case.speed import DECODE
from unslow.think.case.view import CaseView
from unslow.think.judge.summary import as_lack, why_untold
from unslow.think.report import Range, SubjectReport

UNEXPLAINED = ""  # In place of a cause: what is lost and no finding has a price for
NOBODY_ASKED = "no requests in the window"
_ONLY_WAITING = "expected decode speed unknown, so only the queue is counted"
_NOT_IN_TOKENS = "decode is as fast as expected; the loss elsewhere cannot be counted in tokens"
_WAITS_INSIDE = ("load", "prefill")
"""Phases in which a request loses time inside the server; a queue is counted by those who wait in it."""
_ALSO_SLOW_ANSWERS = frozenset({"kv_cache_preemption"})
"""Causes of another phase that slow answers too: what is thrown out is computed again, in steps that all share."""
MOST_SHARE = 0.9  # Of a request's time that a cause may be said to take: prices and traffic are of different moments
_HARDLY_ANY = 1e-3  # Requests at once: one in so long a time loses nothing worth counting
_HOUR_S = 3600.0


class InstanceLoss(NamedTuple):
    """The loss of an instance, and how much of its tokens each cause takes."""

    loss: Loss
    by_cause: dict[str, float]


class Missing(NamedTuple):
    """Tokens per second that are missing, by what they are missing for; None of answers where it can't be told."""

    answers: float | None
    requests: dict[str, float]  # By cause: of the time that requests lose inside the server
    waiting: float


def loss_of(case: CaseView, report: SubjectReport, window_s: float, by_itself: Sequence[str] = ()) -> InstanceLoss:
    """The loss over the window, by the verdict; `by_itself` are the causes that its exporter names."""
    gpus, worked, hours = gpus_held(case), worked_share(case, report), window_s / _HOUR_S
    idle = gpus * hours * (1.0 - worked) if gpus is not None and worked is not None else None
    if report.verdict == "normal":
        return InstanceLoss(Loss(tokens_per_s=0.0, gpu_hours=0.0, idle_gpu_hours=idle), {})
    if report.verdict == "failed":
        whole, idle = (None, None) if gpus is None else (gpus * hours, 0.0)
        because = "the model does not load, so its traffic is unknown"
        return InstanceLoss(Loss(gpu_hours=whole, idle_gpu_hours=idle, because=because), {})
    traffic = case.run.traffic.value_or(None)
    asked = traffic is None or traffic.waiting or traffic.tokens_per_s.value_or(0.0)
    if report.verdict == "cannot_tell" and worked == 0.0 and not asked:
        return InstanceLoss(Loss(tokens_per_s=0.0, gpu_hours=0.0, idle_gpu_hours=idle, because=NOBODY_ASKED), {})
    if report.verdict == "cannot_tell":
        return InstanceLoss(Loss(idle_gpu_hours=idle, because=why_untold(case, report)), {})
    busy = gpus * hours * worked if gpus is not None and worked is not None else None
    given = traffic.tokens_per_s.value_or(None) if traffic else None
    if traffic is None or given is None:
        return InstanceLoss(Loss(idle_gpu_hours=idle, because="its throughput is unknown"), {})
    missing = missing_tokens(case, report, traffic, given)
    lost = (missing.answers or 0.0) + sum(missing.requests.values()) + missing.waiting
    if missing.answers is None and not lost:
        return InstanceLoss(Loss(idle_gpu_hours=idle, because=as_lack(report.expected.because)), {})
    because = _ONLY_WAITING if missing.answers is None else "" if lost else _NOT_IN_TOKENS
    spent = None if busy is None else busy * lost / (lost + given) if lost else 0.0
    loss = Loss(tokens_per_s=lost, gpu_hours=spent, idle_gpu_hours=idle, because=because)
    return InstanceLoss(loss, loss_by_cause(report, missing, by_itself))


def gpus_held(case: CaseView) -> int | None:
    """How many GPUs the instance has for itself; None where nothing tells."""
    if isinstance(case.machine.gpus, Known):
        return len(case.gpus.usable)
    if case.placement.uses_no_gpu:
        return 0
    runtime = case.runtime
    if isinstance(runtime.placement.tensor_parallel, Known):
        return int(runtime.placement.tensor_parallel.value * runtime.placement.pipeline_parallel.value_or(1)) or None
    return None


def worked_share(case: CaseView, report: SubjectReport) -> float | None:
    """The share of the window in which it answered somebody; None where nobody watched."""
    traffic = case.run.traffic.value_or(None)
    if case.runtime.state.value_or("") == "asleep":
        return 0.0
    if traffic is None:
        return None
    rate, given = report.measured.get(DECODE), traffic.tokens_per_s.value_or(0.0)
    answering = max(traffic.running, given / rate if rate else 0.0)  # scrapes miss short requests
    return min(1.0, answering / max(1.0, traffic.each_among))


def missing_tokens(case: CaseView, report: SubjectReport, traffic: Traffic, given: float) -> Missing:
    """What a slow instance does not give, of each kind."""
    rate, best = report.measured.get(DECODE), report.expected.achievable.get(DECODE)
    gain = _gain(report, rate, best)
    answers = None if gain is None else given * gain
    whole = given + (answers or 0.0)
    requests = _missing_in_requests(case, report, traffic, given, whole)
    # How many times as long a step takes with those who wait in it too, by physics; 1 where nothing tells
    loads = (max(1, round(load)) for load in (traffic.running, traffic.running + traffic.waiting))
    now, then = (
        (case.sharing.times_as_long(load, case.speed.depth) for load in loads) if traffic.waiting else (None, None)
    )
    slower = max(1.0, then / now) if now and then else 1.0
    waiting = 0.0
    if traffic.counts_waiting and (report.phase == "queue" or any(f.phase == "queue" for f in report.findings)):
        # What those who wait would get, less what those in work would then get less
        own = rate or given / max(1.0, traffic.running)
        each = min(own, best.mid) if best else own
        waiting = max(0.0, each * ((traffic.running + traffic.waiting) / slower - traffic.running))
    if best:  # all together get no more than what is achievable, or than what they get already
        most = (traffic.running + traffic.waiting) * max(best.mid, rate or 0.0) / slower
        waiting = min(waiting, max(0.0, most - whole - sum(requests.values())))
    return Missing(answers, requests, waiting)


def _gain(report: SubjectReport, rate: float | None, best: Range | None) -> float | None:
    """How much faster answers would come with everything cured, as a share; None where nothing tells."""
    if not rate:
        return None
    saved = sum(f.cost.seconds for f in report.findings if f.cost and f.cost.per == "token" and not f.cost.depth_tokens)
    speedup = max((f.speedup or 1.0 for f in report.findings if f.phase == "decode"), default=1.0)
    if best and rate < best.low:
        return best.mid / rate - 1.0
    left = 1.0 / rate - saved
    cured = 1.0 / (rate * left) if left > 0 and saved else speedup
    most = best.mid / rate if best else cured
    if not best and cured <= 1.0:
        return None
    return max(0.0, min(cured, most) - 1.0)


def _missing_in_requests(
    case: CaseView, report: SubjectReport, traffic: Traffic, given: float, whole: float
) -> dict[str, float]:
    """By cause, what the share of their time costs that requests lose to loading and to prompts.

    By Little's law as many requests are present as come in a second times the seconds of each, so that is the share of
    a request. Prompts are read one after the other while answers wait, so theirs is of the time of all.
    """
    times = {
        "request": given / max(1.0, case.waits.answer_tokens) / max(traffic.running, _HARDLY_ANY),
        "prompt_token": traffic.prompt_tokens_per_s.value_or(0.0),
        "token": 0.0,
    }
    costs = {f.cause: f.cost for f in report.findings if f.cost and f.phase in _WAITS_INSIDE}
    shares = {cause: cost.seconds * times[cost.per] for cause, cost in costs.items()}
    together = sum(shares.values())
    share = min(MOST_SHARE, together)
    lost = whole * share / (1.0 - share)
    return {cause: lost * part / together for cause, part in shares.items() if part > 0}


def loss_by_cause(report: SubjectReport, missing: Missing, by_itself: Sequence[str]) -> dict[str, float]:
    """The missing tokens by cause; what no price explains is of what the exporter names first, else unexplained."""
    taken = dict(missing.requests)
    rate, best = report.measured.get(DECODE), report.expected.achievable.get(DECODE)
    for amount, phase, whole_s in (
        (missing.answers or 0.0, "decode", max(0.0, 1.0 / rate - 1.0 / best.mid) if rate and best else 0.0),
        (missing.waiting, "queue", 0.0),
    ):
        for cause, share in _cause_shares(report, phase, whole_s).items():
            taken[cause] = taken.get(cause, 0.0) + amount * share
    rest = taken.pop(UNEXPLAINED, 0.0)
    named = by_itself[0] if by_itself else UNEXPLAINED
    taken[named] = taken.get(named, 0.0) + rest
    return {cause: amount for cause, amount in taken.items() if amount > 0}


def _cause_shares(report: SubjectReport, phase: str, whole_s: float) -> dict[str, float]:
    """How much of what is lost in a phase each cause stands for, in all one."""
    # What follows from another finding has no price of its own
    explained = {name for f in report.findings for name in f.explains}
    roots = [f for f in report.findings if f.cause not in explained]
    priced = {f.cause: f.cost.seconds for f in roots if f.phase == phase and f.cost and f.cost.seconds > 0}
    if priced:
        whole = max(whole_s, sum(priced.values()))
        shares = {cause: seconds / whole for cause, seconds in priced.items()}
        return shares | {UNEXPLAINED: max(0.0, 1.0 - sum(shares.values()))}
    unpriced = [f.cause for f in roots if f.phase == phase or f.cause in _ALSO_SLOW_ANSWERS]
    unpriced += [f.cause for f in roots if f.cost is None]
    return {unpriced[0] if unpriced else UNEXPLAINED: 1.0}

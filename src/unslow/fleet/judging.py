"""The judgement of every member, in as many processes as there are processors, with what its exporter says.

A judgement takes some milliseconds and shares nothing with the next, so a large fleet is cut into chunks for a pool
of processes. Whatever goes wrong with one member stays with it: one that raises is judged "cannot tell", with the
reason; a process that dies takes its chunk with it, which is then judged member by member, apart from the others.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from unslow.fleet.differences import flat_facts
from unslow.fleet.losses import UNEXPLAINED, gpus_held, loss_of
from unslow.fleet.member import Member, OwnDiagnosis
from unslow.fleet.report import Instance, Judgement, Loss
from unslow.fleet.snapshots import snapshot_of
from unslow.think.case.speed import DECODE
from unslow.think.case.view import CaseView, views_of
from unslow.think.causes import all_causes
from unslow.think.judge.judge import judge
from unslow.think.report import Expectation, Range, SubjectReport

FEW = 64  # Members that one process judges before another has started
CHUNK = 32
"""Members that are judged between two messages: a third of a second, and what is judged anew where a process dies."""
MOST_WAITING = 3  # Chunks for each process that are on their way: more would only take memory
STALE_S = 3600.0  # A look that is older says nothing of now
LASTING = 0.5  # Of the window: a cause that was named for less of it is not what the window is about
MOST_NAMED = 3
UNKNOWN_HARDWARE = "unknown hardware"  # As the judge calls it; no name of a device
Step = Callable[[str, float], None]  # Is told what is being done, and how much of it is done
Finish = Callable[[SubjectReport, CaseView], SubjectReport]
"""What is done with the report on one case before it is kept; it travels to other processes, so it has a name there."""
Placed = tuple[int, Judgement]
One = Callable[[Member], Judgement]
Chunk = list[tuple[int, Member]]


def judge_members(members: Sequence[Member], workers: int, step: Step, finish: Finish | None = None) -> list[Judgement]:
    """Each member judged, in their order; 0 workers is as many as are worth it."""
    one = partial(judge_member, finish=finish)
    count = workers or workers_for(len(members))
    found: list[Judgement | None] = [None] * len(members)
    pairs = enumerate(map(one, members)) if count == 1 else _in_pool(members, one, count)
    for done, (place, answer) in enumerate(pairs, 1):
        found[place] = answer
        if done % CHUNK == 0 or done == len(members):
            step(f"judging {len(members)} instances", done / len(members))
    return [answer for answer in found if answer is not None]


def workers_for(members: int) -> int:
    """As many as there are processors to use, and no more than have something to do."""
    if members < FEW:
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, members // CHUNK))


def judge_member(member: Member, finish: Finish | None = None) -> Judgement:
    """One member; whatever is raised on the way becomes its verdict."""
    try:
        case = next(views_of(snapshot_of(member)))
        report = judge(case, brief=True)
        if finish and report.findings:
            report = finish(report, case)
        found = judge_instance(member, case, report)
        return found._replace(instance=with_own_verdict(without_verdict_if_down(found.instance, member.down), member))
    except Exception as error:  # noqa: BLE001 (one instance must never end the judgement of the others)
        return unjudged_member(member, f"this is a bug in unslow: {type(error).__name__}: {error}")


def judge_instance(member: Member, case: CaseView, report: SubjectReport) -> Judgement:
    """The instance that a report is about, with its losses, and its facts to compare it by."""
    seen, by_itself = case.run.traffic.value_or(None), exporter_causes(member)
    lost = loss_of(case, report, member.window_s, by_itself)
    instance = Instance(
        key=member.key,
        host=member.host_name,
        labels=member.labels,
        runtime=case.runtime.name.value_or(report.runtime),
        version=case.runtime.version.value_or(""),
        model=report.model,
        devices=tuple(name for name in report.devices if name != UNKNOWN_HARDWARE),
        gpus=gpus_held(case),
        verdict=report.verdict,
        summary=report.summary,
        phase=report.phase,
        running=seen.running if seen else None,
        at_once=(seen.each_among or None) if seen else None,
        tokens_per_s=seen.tokens_per_s.value_or(None) if seen else None,
        measured=report.measured,
        expected=report.expected,
        findings=report.findings,
        by_itself=by_itself,
        cannot_tell=len(report.cannot_tell),
        lost=lost.loss,
        lost_by=lost.by_cause,
        notes=(*notes_on(member), *report.notes),
    )
    return Judgement(instance, flat_facts(case))


def exporter_causes(member: Member) -> tuple[str, ...]:
    """What its exporter named for most of the window: by cost, then by duration; what another one explains is last."""
    own, known = member.own, all_causes()
    if own is None or not _is_fresh(own):
        return ()
    named = {cause: share for cause, share in own.findings.items() if share >= LASTING}
    follows = {effect for cause in named if cause in known for effect in known[cause].explains}
    costs_s = own.costs_s
    return tuple(sorted(named, key=lambda cause: (cause in follows, -costs_s.get(cause, 0.0), -named[cause], cause)))


def notes_on(member: Member) -> tuple[str, ...]:
    """What a reader must know of how it was seen."""
    own = member.own
    if own is None or _is_fresh(own):
        return member.doubts
    if own.age_s is None:
        return (*member.doubts, "`unslow exporter` on its machine reports no timestamp, so its verdict is ignored")
    return (*member.doubts, f"the diagnosis of `unslow exporter` on its machine is {own.age_s / 3600:.0f} hours old")


def without_verdict_if_down(instance: Instance, down: str) -> Instance:
    """The same, without a verdict that what was read does not carry; what made it slow before is kept."""
    if not down:
        return instance
    if instance.verdict != "normal":
        return msgspec.structs.replace(instance, notes=(*instance.notes, down))
    lost = Loss(idle_gpu_hours=instance.lost.idle_gpu_hours, because=down)
    summary = f"Cannot tell whether this is slow: {down}."
    return msgspec.structs.replace(instance, verdict="cannot_tell", summary=summary, lost=lost)


def with_own_verdict(instance: Instance, member: Member) -> Instance:
    """Where a Prometheus can't tell, the verdict of the machine itself, which sees logs and processes."""
    own, causes = member.own, all_causes()
    words = {"slow": "It is slow", "failed": "It failed", "normal": "It is as fast as its hardware allows"}
    if instance.verdict != "cannot_tell" or own is None or not _is_fresh(own) or own.verdict not in words:
        return instance
    titles = "; ".join(causes[name].title if name in causes else name for name in instance.by_itself[:MOST_NAMED])
    why = f": {titles}" if titles and own.verdict != "normal" else ""
    seen = {DECODE: own.speed_tokens_per_s} if own.speed_tokens_per_s else {}
    low, mid, high = own.expected_tokens_per_s or (0.0, 0.0, 0.0)
    best = own.achievable_tokens_per_s
    expected = Expectation(
        as_configured={DECODE: Range(low=low, mid=mid, high=high)} if mid else {},
        achievable={DECODE: Range(low=best, mid=best, high=best)} if best else {},
    )
    return msgspec.structs.replace(
        instance,
        verdict=own.verdict,
        summary=f"{words[own.verdict]}, according to `unslow exporter` on its machine{why}.",
        measured=seen | instance.measured,
        expected=instance.expected if instance.expected.achievable else expected,
        **_exporter_loss(instance, own, member.window_s / 3600),
        notes=(*instance.notes, "verdict from `unslow exporter` on its machine"),
    )


def _exporter_loss(instance: Instance, own: OwnDiagnosis, hours: float) -> dict[str, Any]:
    """What it loses against the speed that its machine expects, where it is slow and gives tokens here."""
    rate, best = instance.measured.get(DECODE) or own.speed_tokens_per_s, own.achievable_tokens_per_s
    given, lost = instance.tokens_per_s, instance.lost
    if own.verdict != "slow" or not rate or not best or not given or lost.tokens_per_s is not None:
        return {}
    share = max(0.0, 1.0 - rate / best)
    missing = given * share / (1.0 - share)
    idle = lost.idle_gpu_hours
    spent = share * (instance.gpus * hours - idle) if instance.gpus is not None and idle is not None else None
    because = "compared with what `unslow exporter` on its machine expects"
    loss = msgspec.structs.replace(lost, tokens_per_s=missing, gpu_hours=spent, because=because)
    return {"lost": loss, "lost_by": {next(iter(instance.by_itself), UNEXPLAINED): missing}}


def _is_fresh(own: OwnDiagnosis) -> bool:
    return own.age_s is not None and own.age_s <= STALE_S


def unjudged_member(member: Member, why: str) -> Judgement:
    """A member that nothing can be said of."""
    instance = Instance(
        key=member.key,
        host=member.host_name,
        labels=member.labels,
        runtime=f"{member.runtime} {member.version}".strip(),
        version=member.version,
        model=member.model or "unknown",
        verdict="cannot_tell",
        summary="It could not be judged.",
        notes=(*notes_on(member), why[:300]),
    )
    return Judgement(instance, {})


def _in_pool(members: Sequence[Member], one: One, workers: int) -> Iterator[Placed]:
    left = (list(enumerate(members[start : start + CHUNK], start)) for start in range(0, len(members), CHUNK))
    while waiting := list(islice(left, workers * MOST_WAITING)):
        lost = yield from _through_one_pool(waiting, left, one, workers)
        for chunk in lost:
            yield from _one_by_one(chunk, one)


def _through_one_pool(
    waiting: list[Chunk], left: Iterator[Chunk], one: One, workers: int
) -> Generator[Placed, None, list[Chunk]]:
    """Everything that is left, until a process dies: then the chunks that were on their way are handed back."""
    pool = _pool(workers)
    sent: dict[Future[list[Placed]], Chunk] = {pool.submit(_judge_chunk, chunk, one): chunk for chunk in waiting}
    lost: list[Chunk] = []
    try:
        while sent:
            done, _ = wait(sent, return_when=FIRST_COMPLETED)
            for future in done:
                chunk = sent.pop(future)
                try:
                    yield from future.result()
                except BrokenProcessPool:
                    lost.append(chunk)
                following = None if lost else next(left, None)
                if following is not None:
                    sent[pool.submit(_judge_chunk, following, one)] = following
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return lost


def _one_by_one(chunk: Chunk, one: One) -> Iterator[Placed]:
    """A chunk whose process died, or one beside it: who ends a process of its own is named."""
    pool = _pool(1)
    try:
        for place, member in chunk:
            try:
                yield from pool.submit(_judge_chunk, [(place, member)], one).result()
            except BrokenProcessPool:
                yield place, unjudged_member(member, "the worker process crashed")
                pool.shutdown(wait=True, cancel_futures=True)
                pool = _pool(1)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _judge_chunk(chunk: Chunk, one: One) -> list[Placed]:
    return [(place, one(member)) for place, member in chunk]


def _pool(workers: int) -> ProcessPoolExecutor:
    """Processes that know nothing of this one's threads and files; what they need is read once, before they divide."""
    way = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(way)
    if way == "forkserver":
        context.set_forkserver_preload(["unslow.fleet.forkserver_preload"])
    # Ctrl-C is for the process that asked: it ends the others
    ignored = (signal.SIGINT, signal.SIG_IGN)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=signal.signal, initargs=ignored)

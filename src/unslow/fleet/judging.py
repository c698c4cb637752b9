"""The judgement of every member, in as many processes as there are processors to use.

A judgement takes some milliseconds and shares nothing with the next, so a large fleet is cut into chunks for a pool of
processes. Whatever goes wrong with one member stays with it: one that raises is judged "cannot tell", with the
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
from typing import Protocol

from unslow.facts.snapshot import Case
from unslow.fleet.by_itself import about_of, with_own_verdict
from unslow.fleet.held_back import held_back
from unslow.fleet.member import Member
from unslow.fleet.snapshots import snapshot_of
from unslow.think.fleet.instance import judged_instance
from unslow.think.fleet.judged import Judged
from unslow.think.fleet.report import Instance
from unslow.think.judge import judge
from unslow.think.report import SubjectReport

FEW = 64
"""Members that one process judges before another has started."""
CHUNK = 32
"""Members that are judged between two messages: a third of a second, and what is judged anew where a process dies."""
MOST_WAITING = 3
"""Chunks for each process that are on their way: more would only take memory."""
_LONGEST_WHY = 300

Finish = Callable[[SubjectReport, Case], SubjectReport]
"""What is done with the report on one case before it is kept; it travels to other processes, so it has a name there."""


class Progress(Protocol):
    """Where progress goes."""

    def step(self, text: str, share: float) -> None:
        """What is being done now, and how much of it is done."""


def judged(members: Sequence[Member], workers: int, progress: Progress, finish: Finish | None = None) -> list[Judged]:
    """Each member judged, in their order; 0 workers is as many as are worth it."""
    one = partial(judged_member, finish=finish)
    count = workers or workers_for(len(members))
    found: list[Judged | None] = [None] * len(members)
    pairs = _in_turn(members, one) if count == 1 else _in_pool(members, one, count)
    for done, (place, answer) in enumerate(pairs, 1):
        found[place] = answer
        if done % CHUNK == 0 or done == len(members):
            progress.step(f"judging {len(members)} instances", done / len(members))
    return [answer for answer in found if answer is not None]


def workers_for(members: int) -> int:
    """As many as there are processors to use, and no more than have something to do."""
    if members < FEW:
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(usable, members // CHUNK))


def judged_member(member: Member, finish: Finish | None = None) -> Judged:
    """One member; whatever is raised on the way becomes its verdict."""
    try:
        case = next(snapshot_of(member).cases())
        report = judge(case, brief=True)
        if finish and report.findings:
            report = finish(report, case)
        found = judged_instance(about_of(member), case, report)
        return with_own_verdict(held_back(found, member.down), member)
    except Exception as error:  # noqa: BLE001 (one instance must never end the judgement of the others)
        return unjudged(member, f"this is a bug in unslow: {type(error).__name__}: {error}")


def unjudged(member: Member, why: str) -> Judged:
    """A member that nothing can be said of."""
    about = about_of(member)
    instance = Instance(
        key=member.key,
        host=about.host,
        labels=about.labels,
        runtime=f"{member.runtime} {member.version}".strip(),
        version=member.version,
        model=member.model or "unknown",
        verdict="cannot_tell",
        summary="It could not be judged.",
        notes=(*about.notes, why[:_LONGEST_WHY]),
    )
    return Judged(instance, {})


Placed = tuple[int, Judged]
One = Callable[[Member], Judged]
Chunk = list[tuple[int, Member]]


def _in_turn(members: Sequence[Member], one: One) -> Iterator[Placed]:
    for place, member in enumerate(members):
        yield place, one(member)


def _in_pool(members: Sequence[Member], one: One, workers: int) -> Iterator[Placed]:
    left = iter(_chunks(members))
    while waiting := list(islice(left, workers * MOST_WAITING)):
        lost = yield from _through_one_pool(waiting, left, one, workers)
        for chunk in lost:
            yield from _one_by_one(chunk, one)


def _chunks(members: Sequence[Member]) -> Iterator[Chunk]:
    for start in range(0, len(members), CHUNK):
        yield list(enumerate(members[start : start + CHUNK], start))


def _through_one_pool(
    waiting: list[Chunk], left: Iterator[Chunk], one: One, workers: int
) -> Generator[Placed, None, list[Chunk]]:
    """Everything that is left, until a process dies: then the chunks that were on their way are handed back."""
    pool = _pool(workers)
    sent: dict[Future[list[Placed]], Chunk] = {pool.submit(_judged_chunk, chunk, one): chunk for chunk in waiting}
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
                    sent[pool.submit(_judged_chunk, following, one)] = following
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return lost


def _one_by_one(chunk: Chunk, one: One) -> Iterator[Placed]:
    """A chunk whose process died, or one beside it: who ends a process of its own is named."""
    pool = _pool(1)
    try:
        for place, member in chunk:
            try:
                yield from pool.submit(_judged_chunk, [(place, member)], one).result()
            except BrokenProcessPool:
                yield place, unjudged(member, "the process that judged it ended")
                pool.shutdown(wait=True, cancel_futures=True)
                pool = _pool(1)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _judged_chunk(chunk: Chunk, one: One) -> list[Placed]:
    return [(place, one(member)) for place, member in chunk]


def _pool(workers: int) -> ProcessPoolExecutor:
    """Processes that know nothing of this one's threads and files; what they need is read once, before they divide."""
    way = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(way)
    if way == "forkserver":
        context.set_forkserver_preload(["unslow.fleet.warm"])
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_interrupts)


def _leave_interrupts() -> None:
    """Ctrl-C is for the process that asked: it ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

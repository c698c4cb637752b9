"""Looks at what runs here, watches it, and judges it again and again; what came of it last is there for anybody."""

import sys
import time
import traceback
from collections.abc import Callable
from datetime import datetime
from threading import Event, Thread
from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.app.exporter.measuring import Measurements, place_of
from unslow.app.exporter.post import Post
from unslow.app.exporter.request import ExporterRequest
from unslow.app.exporter.steady import is_same_place, steady
from unslow.app.watching.eyes import JOIN_S
from unslow.app.watching.found import find
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.system import LookError, System
from unslow.show._clean import without_controls
from unslow.show._metric_subjects import MOST_SUBJECTS, keyed
from unslow.show.openmetrics import LookState
from unslow.think.judge import judge, machine_line
from unslow.think.report import Report

FIRST_S = 10.0
"""From the first look, which knows no speed, to the second."""
STALE_LOOKS, STALE_S = 3, 300.0
"""What was known stands for so many looks that fail, and at least for as long as Prometheus itself remembers."""
STUCK_LOOKS, STUCK_S = 5, 600.0
"""A look that has not ended after so long hangs, in a driver or in a file system."""
FIND_SHARE = 0.01
"""Of one core that searching for servers may take: on a machine with many processes it comes less often."""


class Standing(NamedTuple):
    """What is known, and how the last look went."""

    report: Report | None = None
    state: LookState = LookState()


class Looker:
    """`look` is called by one thread; `standing` and `is_well` are for any."""

    def __init__(self, system: System, request: ExporterRequest) -> None:
        self._system, self._request = system, request
        self._posts: list[Post] = []
        self._judged: dict[str, Post] = {}
        """Those of the last report, by their keys there."""
        self._seen: Snapshot | None = None
        self._measurements = Measurements(request)
        self._find_at = 0.0
        self._left_out = 0
        self._looking_since: float | None = None
        self._said = ""
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="unslow exporter looks", daemon=True)
        self._standing = Standing()
        self._good_at: float | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End it, and everything that asks."""
        self._stopping.set()
        self._measurements.stop()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        for post in self._posts:
            post.stop()

    def _run(self) -> None:
        wait_s = min(FIRST_S, self._request.every_s)
        while not self._stopping.is_set():
            self.attempt()
            self._stopping.wait(wait_s)
            wait_s = self._request.every_s

    def attempt(self) -> None:
        """One look; where it fails, that is what is known of it."""
        start_s = self._looking_since = self._system.clock()
        try:
            with self._request.watch.discretion.errors():
                self.look()
        except Exception as error:  # noqa: BLE001 (it must go on: what is wrong now may be right at the next look)
            self._failed(error, self._system.clock() - start_s)
        else:
            self._said = ""
        self._looking_since = None

    def look(self) -> None:
        """Find what there is, and judge it by what was seen of its work."""
        start_s = self._system.clock()
        self.find()
        if self._seen is not None and self._measurements.is_due(self._system.clock()):
            self._measure(self._seen)
        self.judge(start_s)

    def _measure(self, seen: Snapshot) -> None:
        measured = self._measurements.measure(seen, seen.subjects, self._system.clock())
        for words in self._measurements.missed:
            _tell(f"not measured: {words}")
        self._refresh(seen)
        for post in self._posts:
            if place_of(post.watched.subject) in measured:
                post.note_measured()

    def find(self) -> None:
        """Search for servers, where it is time; each is asked from then on by a thread of its own."""
        if self._system.clock() < self._find_at and all(post.watched.is_there() for post in self._posts):
            return
        before_s = time.process_time()
        seen = find(self._system, self._request.watch)
        cost_s = time.process_time() - before_s
        self._find_at = self._system.clock() + cost_s / FIND_SHARE
        self._left_out = max(0, len(seen.subjects) - MOST_SUBJECTS)
        self._refresh(msgspec.structs.replace(seen, subjects=_in_order(seen.subjects)))

    def _refresh(self, seen: Snapshot) -> None:
        """Watch what is there, and no more what is gone."""
        before, kept = self._posts, []
        for found in seen.subjects:
            post = next((p for p in before if p not in kept and _is_same(p, found)), None)
            if post is not None:
                subject = self._measurements.laid_over(steady(post.watched.subject, found))
                post.watched.refresh(seen, subject)
            else:
                post = Post(self._system, seen, self._measurements.laid_over(found), self._request.watch)
                post.start()
            kept.append(post)
        self._seen, self._posts = seen, kept
        for post in before:
            if post not in kept:
                post.stop()

    def judge(self, start_s: float) -> None:
        """A report on all that is watched."""
        machine = machine_line(self._seen) if self._seen else {}
        judged = [msgspec.structs.replace(judge(post.case()), number=n) for n, post in enumerate(self._posts)]
        report = Report(unslow_version=__version__, machine=machine, subjects=tuple(judged))
        now_s, now = self._system.clock(), datetime.fromisoformat(self._system.now()).timestamp()
        self._good_at = now_s
        self._judged = posts = {key: self._posts[one.number] for key, one in keyed(report.subjects).items()}
        self._standing = Standing(report, LookState(
            success=True, at_s=now, duration_s=now_s - start_s, failures=self._standing.state.failures,
            seen_s=tuple((key, now - (now_s - p.seen_at_s)) for key, p in posts.items() if p.seen_at_s is not None),
            answers=self._answering(), left_out=self._left_out,
        ))  # fmt: skip

    def _answering(self) -> tuple[tuple[str, bool], ...]:
        """Whether each answers now: also of a server that is not found any more."""
        return tuple((key, post.answers) for key, post in self._judged.items())

    def _failed(self, error: Exception, seconds: float) -> None:
        report, state = self._standing
        is_stale = self._good_at is None or self._system.clock() - self._good_at > self.stale_s
        answers, failures = self._answering(), state.failures + 1
        state = state._replace(success=False, duration_s=seconds, failures=failures, answers=answers)
        self._standing = Standing(None if is_stale else report, state)
        self._say(error)

    def _say(self, error: Exception) -> None:
        """Once for each reason, on standard error."""
        told = isinstance(error, UserError | LookError)
        words = str(error) if told else "".join(traceback.format_exception(error))
        if words != self._said:
            self._said = words
            _tell(f"a look failed: {words.rstrip()}")

    @property
    def stale_s(self) -> float:
        """After how long what was known is known no more."""
        return max(STALE_S, STALE_LOOKS * self._request.every_s)

    def standing(self) -> Standing:
        """What is known now; asks nobody."""
        return self._standing

    def is_well(self) -> bool:
        """Whether looking goes on, well or not."""
        since = self._looking_since
        most_s = max(STUCK_S, STUCK_LOOKS * self._request.every_s)
        return self._thread.is_alive() and (since is None or self._system.clock() - since < most_s)

    def look_once(self, watch_s: float, say: Callable[[str, float], None]) -> Standing:
        """One look alone, at what servers do in so many seconds; an error is the caller's."""
        start_s = self._system.clock()
        say("looking at the machine and at what runs on it", 0.0)
        self.find()
        if self._posts:
            say(f"watching what it does for others, for {watch_s:.0f} s", 0.3)
            self._stopping.wait(watch_s)
        self.judge(start_s)
        return self._standing


def _tell(words: str) -> None:
    """On standard error, where there is one."""
    if sys.stderr is not None:
        sys.stderr.write(f"unslow exporter: {without_controls(words)}\n")
        sys.stderr.flush()


def _in_order(subjects: tuple[Subject, ...]) -> tuple[Subject, ...]:
    """Always the same ones where there are too many: by their addresses."""
    return tuple(sorted(subjects, key=place_of)[:MOST_SUBJECTS])


def _is_same(post: Post, subject: Subject) -> bool:
    """A post whose thread broke is no use: another takes its place."""
    return post.failure is None and is_same_place(post.watched.subject, subject)

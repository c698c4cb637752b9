"""Keeps one user generating for minutes: does the speed hold, and does the server.

Requests follow each other without a pause. Whatever goes wrong is counted and waited for: a server that stalls, hangs
up, answers errors or is away for a while costs the requests it failed, and nothing else.
"""

from http import HTTPStatus

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.server import context_of
from unslow.commands.bench.sweeps import Limits, until_stopped
from unslow.facts.bench import Failure, Pass, Sweep
from unslow.facts.errors import UserError
from unslow.look.bench.timing import is_gone
from unslow.look.bench.trials.observations import shortest_question
from unslow.look.requests import Target
from unslow.look.system import LookError, System
from unslow.think.stats.drift import Outage, Timeline, availability_line
from unslow.think.stats.figures import decode_rate

AXIS = "minutes"
OWN_SERVER = False
USUAL_MINUTES = 5.0
REQUEST_S = 5.0
"""About how long a request shall take: long enough for its speed to say something, short enough to see changes."""
SILENCE_S, DEADLINE_S = 60.0, 900.0
"""Short questions: a server that says nothing for a minute has stalled, whatever it is."""
SHORTEST_S, LONGEST_S = 0.25, 10.0  # Between two looks: soon enough to lose little, seldom enough to be no load
MOST_POINTS = 240
_FEWEST_TOKENS, _MOST_TOKENS = 16, 2048
_SLICES_OF_SHORT, _REQUESTS_OF_SLICE = 10, 3
_MINUTE_S = 60.0
_SHORTEST_MINUTES, _LONGEST_MINUTES = 0.05, 2 * 24 * 60.0
_NEVER, _NEVER_S = 20, 120.0
_LONG_MINUTES, _FAR_FALLEN, _JUDGED_EVERY = 20.0, 0.10, 5
_LOOK_TIMEOUT_S = 3.0


def sweep(bencher: Bencher, limits: Limits) -> Sweep:
    """The speed by the minute, and what became of every request."""
    return sustained_sweep(bencher, limits, min(REQUEST_S, slice_s(minutes_of(limits)) / _REQUESTS_OF_SLICE))


def sustained_sweep(bencher: Bencher, limits: Limits, request_s: float) -> Sweep:
    """The same with requests of about that length; with 0 they generate as many tokens as the limits say."""
    silence, deadline = bencher.silence_s, bencher.deadline_s
    bencher.silence_s, bencher.deadline_s = min(silence, SILENCE_S), min(deadline, DEADLINE_S)
    run = _Run(bencher, limits, request_s)
    try:
        stopped = until_stopped(bencher, run.until_the_end)
    finally:
        bencher.silence_s, bencher.deadline_s = silence, deadline
    return run.swept(stopped)


def minutes_of(limits: Limits) -> float:
    """How long it lasts: as asked for, else the usual or what the limits leave; UserError where that can't be."""
    minutes = max(limits.values) if limits.values else min(USUAL_MINUTES, limits.seconds / _MINUTE_S)
    if not _SHORTEST_MINUTES <= minutes <= _LONGEST_MINUTES:
        raise UserError(f"minutes must be between a few seconds and two days (got {minutes:g})", "such as minutes=60")
    return minutes


def slice_s(minutes: float) -> float:
    """How long one point lasts: a minute, less of a few minutes, more of many hours."""
    whole = minutes * _MINUTE_S
    return max(min(_MINUTE_S, whole / _SLICES_OF_SHORT), whole / MOST_POINTS)


class _Run:
    """One sustained measurement on its way."""

    def __init__(self, bencher: Bencher, limits: Limits, request_s: float) -> None:
        self._bencher, self._request_s = bencher, request_s
        self.minutes = minutes_of(limits)
        self._slice_s = slice_s(self.minutes)
        self._tokens, self._asked = limits.tokens, 0
        self._passes_before, self._failures_before = len(bencher.passes), len(bencher.failures)
        self._start_s = bencher.system.clock()
        self._end_s = self._start_s + self.minutes * _MINUTE_S
        self._failed_in_a_row = 0
        self._outages: list[Outage] = []
        self._seen: list[dict[str, float]] = []

    @property
    def passes(self) -> list[Pass]:
        """Those of this measurement."""
        return self._bencher.passes[self._passes_before :]

    @property
    def failures(self) -> list[Failure]:
        """Those of this measurement."""
        return self._bencher.failures[self._failures_before :]

    def until_the_end(self) -> str:
        """Ask until the time is up; why it was over before."""
        while (now := self._bencher.system.clock()) < self._end_s:
            self._ask(now)
            if why := self._look_back():
                return why
        self._look_back()
        return ""

    def _ask(self, now: float) -> None:
        bencher, first = self._bencher, not self.passes
        done = (now - self._start_s) / (self._end_s - self._start_s)
        self._asked += 1
        minute = (now - self._start_s) / _MINUTE_S
        failed = f", {len(self.failures)} failed" if self.failures else ""
        words = f"minute {minute:.1f} of {self.minutes:g}: {len(self.passes)} succeeded{failed}"
        bencher.progress.step(words, done)
        # A server that was started again has another process, which nobody knows; what fails now is not its end
        system, target = bencher.system, bencher.target
        if target.pid is not None and is_gone(system, target.pid) and is_there(system, target):
            bencher.target = target._replace(pid=None)
        tokens = min(self._tokens, _FEWEST_TOKENS) if first else self._tokens
        outcome = bencher.ask(BenchWish(AXIS, tokens, round=0 if first else self._asked))
        if isinstance(outcome, Failure):
            self._wait_for_server(outcome)
            return
        self._failed_in_a_row = 0
        if first and self._request_s:
            # As many tokens as take the time of a request, within the context of the server
            most = max(_FEWEST_TOKENS, min(_MOST_TOKENS, (context_of(bencher) or 2 * _MOST_TOKENS) // 2))
            self._tokens = max(_FEWEST_TOKENS, min(most, int((decode_rate(outcome) or 0.0) * self._request_s)))

    def _wait_for_server(self, failure: Failure) -> None:
        """Until it is there again, or the time is up; longer where it is there and fails all the same."""
        system, target = self._bencher.system, self._bencher.target
        start = failure.started_s if failure.kind == "refused" else failure.started_s + failure.lasted_s
        waits = 0
        try:
            while not is_there(system, target) and system.clock() < self._end_s:
                waits += 1
                self._sleep(waits - 1)
        finally:
            if waits:
                self._outages.append(Outage(start, max(start, system.clock() - self._bencher.began_s)))
        if self._failed_in_a_row and not waits:
            self._sleep(self._failed_in_a_row)
        self._failed_in_a_row += 1

    def _sleep(self, before: int) -> None:
        """Twice as long as the time before, within bounds."""
        system, wanted = self._bencher.system, min(LONGEST_S, SHORTEST_S * 2 ** min(before, 10))
        system.sleep(max(0.0, min(wanted, self._end_s - system.clock())))

    def _look_back(self) -> str:
        """At the end of a slice, note what was seen in it; why there is no point in more."""
        bencher, now = self._bencher, self._bencher.system.clock()
        while (len(self._seen) + 1) * self._slice_s <= now - self._start_s:
            start = self._start_s + len(self._seen) * self._slice_s
            self._seen.append(bencher.sampler.means_between(start, start + self._slice_s) if bencher.sampler else {})
            if self.minutes >= _LONG_MINUTES and not len(self._seen) % _JUDGED_EVERY:
                # Where it has fallen far and stayed there for long, more minutes would show the same
                drift = self._timeline().drift()
                far = drift.verdict == "falls" and drift.late < (1 - _FAR_FALLEN) * drift.early
                minute, since = (now - self._start_s) / _MINUTE_S, drift.settled_since
                if far and since is not None and minute - since >= self.minutes / 3:
                    return f"it dropped in minute {drift.knee:g} and has been stable since minute {since:g}"
        if not self.passes and len(self.failures) >= _NEVER and now - self._start_s > _NEVER_S:
            return f"{len(self.failures)} requests failed and none succeeded"
        return ""

    def swept(self, stopped: str) -> Sweep:
        """The result so far."""
        timeline = self._timeline()
        drift = timeline.drift()
        became = availability_line(self.passes, self.failures, self._outages)
        return Sweep(
            axis=AXIS,
            points=tuple(timeline.points()),
            verdict=drift.verdict,
            because=f"{drift.because}; {became}",
            knee=drift.knee,
            stopped_early=stopped,
        )

    def _timeline(self) -> Timeline:
        return Timeline(
            start_s=self._start_s - self._bencher.began_s,
            lasted_s=self._bencher.system.clock() - self._start_s,
            slice_s=self._slice_s,
            passes=[one for one in self.passes if one.round],
            failures=self.failures,
            outages=self._outages,
            seen=self._seen,
        )


def is_there(system: System, target: Target) -> bool:
    """Whether the server answers a cheap question as one that could answer others; one that loads does not."""
    try:
        path = shortest_question(target.runtime)
        return target.server(system).ask(path, timeout_s=_LOOK_TIMEOUT_S).status < HTTPStatus.INTERNAL_SERVER_ERROR
    except LookError:
        return False

"""One of the two servers while it is measured: how to open it, and all that was learned of it so far."""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from unslow.app.bench.bencher import Bencher
from unslow.app.bench.request import Request as BenchRequest
from unslow.app.bench.server import Place, opened
from unslow.app.manners import Manners
from unslow.app.progress import Progress
from unslow.app.read_target import as_url, is_live
from unslow.facts.bench import Failure
from unslow.facts.snapshot import Case
from unslow.facts.verified import MOST_ROUNDS, Sample, Scored, Side, Work
from unslow.look.launch.command import Command, parse_command
from unslow.look.launch.server import START_TIMEOUT_S
from unslow.look.launch.settings import shown
from unslow.look.system.http import is_loopback
from unslow.think.bench.conditions import settings_of

_PATIENT_S, _TIMES = 60.0, 4.0
"""A start that takes longer than this, and so many times as long as the longest before, is not waited for."""


def is_local(word: str) -> bool:
    """Whether a URL or process id means this machine."""
    url = as_url(word)
    return url is None or is_loopback(urlsplit(url).hostname or "")


class _Steps:
    """Says only what is being done: the rest was said when it was opened for the first time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def say(self, text: str) -> None:
        """Nothing."""

    def step(self, text: str, share: float) -> None:
        """What is being done."""
        self._progress.step(text, share)


class Party:
    """A server that runs, or a command line that starts one."""

    def __init__(self, word: str, place: Place, manners: Manners, model: str | None = None, hz: float = 0.0) -> None:
        self.is_running, self.model = is_live(word), model
        self.command: Command | None = None if self.is_running else parse_command(word)
        self.what = shown(self.command.words) if self.command else word
        target, command = (word, None) if self.is_running else (None, word)
        self._request = BenchRequest(target, manners=manners, model=model, command=command, hz=hz, keep=False)
        self._place = place
        self.is_here = not self.is_running or is_local(word)
        """Whether it runs on this machine."""
        self.samples: list[Sample] = []
        self.failures: list[str] = []
        self.starts_s: list[float] = []
        self.failed_starts: list[str] = []
        self.answers: tuple[str, ...] = ()
        self.again: tuple[str, ...] = ()
        self.compared_tokens = self.places = 0
        self.scored: Scored | None = None
        self.not_scored = self.written_turns = ""
        self.host: list[float] = []
        self.conditions: dict[str, float] = {}
        self._case: Case | None = None

    @contextmanager
    def opened(self, progress: Progress) -> Iterator[Bencher]:
        """It, ready to be asked; one that was started here is ended with the block."""
        shown = progress if self._case is None else _Steps(progress)
        start = self._place.system.clock()
        with opened(self._place, self._request, shown, self._patience_s) as bencher:
            self._case = bencher.case
            if not self.is_running:
                self.starts_s.append(self._place.system.clock() - start)
            yield bencher

    @property
    def _patience_s(self) -> float:
        """How long a start may take: for ever so long the first time, later a few times as long as it took before."""
        return max(_PATIENT_S, _TIMES * max(self.starts_s)) if self.starts_s else START_TIMEOUT_S

    def failed(self, failure: Failure) -> None:
        """Take note of a request that was not answered."""
        if len(self.failures) < MOST_ROUNDS:
            self.failures.append(failure.why)

    def side(self, work: Work) -> Side:
        """What was learned so far."""
        case = self._case or Case()
        return Side(
            what=self.what,
            taken_at=self._place.system.now(),
            runtime=case.runtime.name.value_or("unknown"),
            runtime_version=case.runtime.version.value_or(""),
            model=case.model.name.value_or("unknown"),
            settings=settings_of(case),
            work=work,
            samples=tuple(self.samples[-MOST_ROUNDS:]),
            failures=tuple(self.failures),
            starts_s=tuple(self.starts_s[-MOST_ROUNDS:]),
            failed_starts=tuple(self.failed_starts[-MOST_ROUNDS:]),
            answers=self.answers,
            again=self.again,
            compared_tokens=self.compared_tokens,
            places=self.places,
            scored=self.scored,
            not_scored=self.not_scored,
            written_turns=self.written_turns,
            host_bytes_per_s=tuple(self.host),
            conditions=self.conditions,
        )

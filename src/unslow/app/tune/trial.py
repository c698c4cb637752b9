"""One turn of a candidate: a whole life of its server, started, warmed up, asked a few times, and ended."""

from typing import NamedTuple

from unslow.app.bench.bencher import Bencher
from unslow.app.bench.own import Own
from unslow.app.bench.server import Place, case_of
from unslow.app.bench.starters import CommandStarter
from unslow.app.manners import Manners
from unslow.app.progress import Progress
from unslow.app.tune.lines import Line
from unslow.app.verify.asking import Prompt, asked, prompt_of, warm_up
from unslow.app.verify.lives import FEWEST_EACH, MOST_EACH
from unslow.app.verify.party import Party
from unslow.facts.errors import UserError
from unslow.facts.verified import Work
from unslow.look.launch.command import parse_command

TOO_SLOW = 4.0
"""Times the best request so far: whoever takes longer is not waited for."""
_PATIENT_S = 60.0
"""A start may take so long even where the whole time is shorter."""
_LEAST_LIMIT_S = 10.0
"""A request is given so long however fast the best one is: a first one may be slow once."""


class Steps:
    """Says whose turn it is, with the share of the whole; what happens in one turn is too short to be told."""

    def __init__(self, progress: Progress, what: str, share: float) -> None:
        progress.step(what, share)

    def say(self, text: str) -> None:
        """Nothing."""

    def step(self, text: str, share: float) -> None:
        """Nothing."""


class Limits(NamedTuple):
    """How long a start and a request may take."""

    start_s: float
    request_s: float


def limits_of(budget_s: float, left_s: float, best_s: float | None, *, is_new: bool) -> Limits:
    """Whoever was never measured is waited for only as long as it may still be of interest, and as there is time."""
    patient = max(_PATIENT_S, budget_s)
    if not is_new or best_s is None:
        return Limits(patient, patient)
    return Limits(max(_LEAST_LIMIT_S, left_s), max(_LEAST_LIMIT_S, min(TOO_SLOW * best_s, left_s)))


class Trial:
    """One candidate through all its turns."""

    def __init__(self, line: Line, place: Place) -> None:
        self.party = Party(line.text, place, Manners(evict=True))
        self.starts_s: list[float] = []
        self._starter, self._place = CommandStarter(parse_command(line.text)), place

    def turn(self, number: int, work: Work, prompts: list[Prompt], limits: Limits, progress: Progress) -> str:
        """Measure one life, into the party's samples; why it did not run, or was too slow."""
        own = Own(self._place.system, self._place.snapshot.machine, progress, self._starter)
        own.timeout_s = limits.start_s
        try:
            with own.started({}) as bencher:
                self.starts_s.append(own.load_s)
                bencher.case = case_of(self._place.snapshot, bencher.subject)
                bencher.deadline_s = limits.request_s
                return self._life(bencher, number, work, prompts)
        except UserError as error:
            return error.message

    def _life(self, bencher: Bencher, number: int, work: Work, prompts: list[Prompt]) -> str:
        if why := warm_up(bencher, self.party, work):
            return _reason(bencher) or why
        if not prompts:
            prompts += [prompt_of(bencher, work) for _ in range(MOST_EACH)]
        end = bencher.system.clock() + self.starts_s[-1]
        for count, prompt in enumerate(prompts):
            if count >= FEWEST_EACH and bencher.system.clock() > end:
                break
            asked(bencher, self.party, work, prompt, number)
            if bencher.failures:
                return _reason(bencher)
        return "" if self.requests_s(number) else "its answers were too short to be timed"

    def requests_s(self, number: int) -> list[float]:
        """What the requests of a round took."""
        return [s.request_s for s in self.party.samples if s.round == number and s.request_s is not None]


def _reason(bencher: Bencher) -> str:
    """Why the first request that failed did."""
    if not bencher.failures:
        return ""
    first = bencher.failures[0]
    if first.lasted_s >= bencher.deadline_s:
        return f"too slow: a request took longer than {bencher.deadline_s:.0f} s"
    return f"a request failed: {first.why}"

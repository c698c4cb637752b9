"""The servers while they are measured: opened, asked in turns, one after the other or alone, and what they answer."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from unslow.catalog.quality import sample_openings, sample_text
from unslow.commands._output import Progress, Silent
from unslow.commands.bench import BenchRequest
from unslow.commands.bench.bencher import MOST_IN_A_ROW, WARM_UP, WARM_UP_TOKENS, Bencher, Wanted, given_up, settle
from unslow.commands.bench.server import Place, context_of, open_bencher
from unslow.commands.diagnose.target import as_url, is_live
from unslow.facts.bench import Failure
from unslow.facts.errors import UserError
from unslow.facts.run import Run
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.facts.verification import MOST_ROUNDS, Sample, Scored, Side, Work
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.bench.timing import ask, score
from unslow.look.launch.command import Command, command_without_secrets, parse_command
from unslow.look.launch.server import START_TIMEOUT_S
from unslow.look.requests import AskError, Question, ScoredText
from unslow.look.runtimes.llama_cpp.bench import read_written_turns
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback
from unslow.think.stats.conditions import conditions_of, settings_of
from unslow.think.stats.figures import FEWEST_TOKENS as FEWEST_RATED
from unslow.think.stats.figures import decode_rate, prefill_rate
from unslow.think.stats.gain import FEWEST_ROUNDS, is_enough, is_steady

_PATIENT_S, _TIMES = 60.0, 4.0
"""A start that takes longer than this, and so many times as long as the longest before, is not waited for."""


class _Steps(Silent):
    """Says only what is being done: the rest was said when it was opened for the first time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def step(self, text: str, share: float) -> None:
        self._progress.step(text, share)


class MeasuredServer:
    """A server that runs, or a command line that starts one."""

    def __init__(
        self,
        word: str,
        place: Place,
        model: str | None = None,
        api_key: str | None = None,
        *,
        evict: bool = False,
        hz: float = 0.0,
    ) -> None:
        self.is_running, self.model = is_live(word), model
        self.command: Command | None = None if self.is_running else parse_command(word)
        self.what = command_without_secrets(self.command.words) if self.command else word
        target, command = (word, None) if self.is_running else (None, word)
        self._request = BenchRequest(target=target, command=command, model=model, api_key=api_key, evict=evict, hz=hz)
        self._place = place
        url = as_url(word) if self.is_running else None
        self.is_here = url is None or is_loopback(urlsplit(url).hostname or "")
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
        # How long a start may take: for ever so long the first time, later a few times as long as it took before
        patience_s = max(_PATIENT_S, _TIMES * max(self.starts_s)) if self.starts_s else START_TIMEOUT_S
        start = self._place.system.clock()
        with open_bencher(self._place, self._request, shown, patience_s) as bencher:
            self._case = bencher.case
            if not self.is_running:
                self.starts_s.append(self._place.system.clock() - start)
            yield bencher

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


CASE, KEPT = "verify", "kept"


class Prompt(NamedTuple):
    """What is asked in a round: the part that the cache has already, and the new one."""

    kept: str
    new: str


def prompt_of(bencher: Bencher, work: Work) -> Prompt:
    """A prompt that no cache has seen; both servers of a round are asked the same."""
    prompts = bencher.prompts
    return Prompt(
        prompts.prompt(work.kept_tokens) if work.kept_tokens else "", prompts.prompt(max(1, work.prompt_tokens))
    )


def warm_up(bencher: Bencher, party: MeasuredServer, work: Work) -> str:
    """Requests that count for nothing, a short one and one as long as those that count; why it can't be asked."""
    for tokens in (0, work.prompt_tokens + work.kept_tokens):
        done = bencher.ask(Wanted(WARM_UP, WARM_UP_TOKENS, tokens, round=0))
        if isinstance(done, Failure):
            party.failed(done)
            return f"{party.what} did not answer: {done.why}"
        settle(bencher)
    return ""


def asked(bencher: Bencher, party: MeasuredServer, work: Work, prompt: Prompt, number: int) -> str:
    """Ask, and keep what it took; why there is no point in asking on."""
    if prompt.kept:
        bencher.ask(Wanted(KEPT, 1, prompt=prompt.kept, round=0, keep=True))
    text = f"{prompt.kept}\n{prompt.new}" if prompt.kept else prompt.new
    done = bencher.ask(Wanted(CASE, work.answer_tokens, prompt=text, round=number, keep=bool(prompt.kept)))
    if isinstance(done, Failure):
        party.failed(done)
    else:
        # Of an answer that ended early, the time that its whole length would have taken
        decode = decode_rate(done) if done.generated_tokens >= FEWEST_RATED else None
        request = done.client_first_token_s + (done.asked_tokens - 1) / decode if decode else None
        if not done.ended_early and done.generated_tokens == done.asked_tokens:
            request = done.client_total_s
        prefill = prefill_rate(done)
        party.samples.append(
            Sample(round=number, decode_tokens_per_s=decode, prefill_tokens_per_s=prefill, request_s=request or None)
        )
    settle(bencher)
    return f"{MOST_IN_A_ROW} requests in a row failed at {party.what}" if given_up(bencher) else ""


MOST_TOKENS, FEWEST_TOKENS = 48, 12
"""Of an answer: longer ones have gone their own way by then, shorter ones tell no loop."""
MOST_PLACES, FEWEST_PLACES = 200, 48
"""Of the text whose probabilities are asked for: two hundred tell a percent of perplexity."""
FEWEST_QUESTIONS = 5  # Of those that are compared: fewer can't tell another model from chance (`think.stats.answers`)
SHORTEST_S, LONGEST_S = 15.0, 120.0  # For the probabilities of one server, should it be slower than it was
_TRIES = 2  # Of a question: one failure may be an accident
_PARTS = 5  # The first is asked everything twice and the second once, and both for probabilities
_LETTERS = 4.0
"""Of a token, about: the text is read once, a few tokens before each place, and a place is one step of generating."""


class Extent(NamedTuple):
    """How much is compared: the same for both."""

    tokens: int
    places: int
    questions: int
    seconds: float = LONGEST_S  # For probabilities


def extent_of(party: MeasuredServer, seconds: float) -> Extent:
    """As much as the time is enough for, by how fast the server is."""
    decode = _slowest([sample.decode_tokens_per_s for sample in party.samples])
    prefill = _slowest([sample.prefill_tokens_per_s for sample in party.samples]) or decode
    if not decode:
        return Extent(FEWEST_TOKENS, FEWEST_PLACES, FEWEST_QUESTIONS, max(SHORTEST_S, min(LONGEST_S, seconds)))
    part_s, all_of_them = seconds / _PARTS, len(sample_openings())
    opening_s = sum(map(len, sample_openings())) / all_of_them / _LETTERS / prefill
    tokens = int((part_s / all_of_them - opening_s) * decode)
    questions = int(part_s / (opening_s + FEWEST_TOKENS / decode))
    places = int((part_s - len(sample_text()) / _LETTERS / prefill) * decode)
    return Extent(
        max(FEWEST_TOKENS, min(MOST_TOKENS, tokens)),
        max(FEWEST_PLACES, min(MOST_PLACES, places)),
        max(FEWEST_QUESTIONS, min(all_of_them, questions)),
        max(SHORTEST_S, min(LONGEST_S, seconds)),
    )


def _slowest(rates: Sequence[float | None]) -> float:
    return min((rate for rate in rates if rate), default=0.0)


def extent_before(side: Side) -> Extent | None:
    """The extent of what was kept; None where no answers were."""
    return Extent(side.compared_tokens, side.places or FEWEST_PLACES, len(side.answers)) if side.answers else None


def compare_answers(bencher: Bencher, party: MeasuredServer, extent: Extent, *, twice: bool) -> None:
    """Ask all questions, twice of the one that the other is held against, and then for probabilities."""
    bencher.progress.step(f"comparing answers: {party.what}", 0.0)
    party.compared_tokens, party.places = extent.tokens, extent.places
    party.answers = _answers(bencher, party, extent)
    if twice:
        bencher.progress.step(f"comparing answers, once more: {party.what}", 0.5)
        party.again = _answers(bencher, party, extent)
    with suppress(LookError):  # most runtimes don't show it
        party.written_turns = read_written_turns(bencher.system, bencher.target)
    bencher.progress.step(f"comparing what it expects of a text: {party.what}", 0.9)
    text = ScoredText(sample_text(), extent.places, extent.seconds, context_of(bencher), bencher.slot)
    try:
        party.scored = score(bencher.system, bencher.target, text)
    except LookError as error:
        party.not_scored = error.why
    settle(bencher)


def spread_questions(questions: Sequence[str], number: int) -> list[str]:
    """So many of all, spread over their kinds."""
    return [questions[place * len(questions) // number] for place in range(number)]


def _answers(bencher: Bencher, party: MeasuredServer, extent: Extent) -> tuple[str, ...]:
    found = []
    for opening in spread_questions(sample_openings(), extent.questions):
        question = Question(opening, extent.tokens, bencher.slot, greedy=True, silence_s=bencher.silence_s)
        for _ in range(_TRIES):
            try:
                found.append(ask(bencher.system, bencher.target, question).text)
                break
            except AskError as error:
                party.failures.append(error.why)
        else:
            return ()
    return tuple(found)


ANSWERS_SHARE = 1 / 3  # Of the time, for answers
STRETCHED = 1.5
"""The time may be so much longer for the first few rounds: with fewer, all of it is lost. What else took longer than
it was to does not count for them."""


class Course(NamedTuple):
    """What is asked, and for how long."""

    work: Work
    seconds: float
    answers: bool = True
    extent: Extent | None = None  # How much of the answers is compared, where that was chosen before

    @property
    def for_speed_s(self) -> float:
        """The time for rounds."""
        return self.seconds * (1 - ANSWERS_SHARE) if self.answers else self.seconds

    @property
    def for_answers_s(self) -> float:
        """The time for the answers of both."""
        return self.seconds * ANSWERS_SHARE


class Clock:
    """Counts the time of starts and rounds, and says how much of it is left."""

    def __init__(self, system: System, seconds: float, progress: Progress, aside_s: float = math.inf) -> None:
        self._system, self._seconds, self._progress, self._aside_s = system, seconds, progress, aside_s
        self._since = self._rounds_since = system.clock()
        self._late_s = 0.0

    def begin_rounds(self) -> None:
        """Until now it was only started: that counts, and says nothing of how long a round is."""
        self._rounds_since = self._system.clock()

    def has_time(self, rounds: int) -> bool:
        """Whether another round after so many would end in time; for the first there always is time."""
        if not rounds:
            return True
        usual = (self._system.clock() - self._rounds_since) / rounds
        if rounds < FEWEST_ROUNDS:
            return self._spent - self._late_s + usual <= self._seconds * STRETCHED
        return self._spent + usual <= self._seconds

    def say(self, text: str) -> None:
        """What is being done now."""
        left = max(0.0, self._seconds - self._spent)
        self._progress.step(f"{text}, up to {left:.0f} s left", min(1.0, self._spent / self._seconds))

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """What happens in this block is no round, and does not count as far as there is time of its own for it."""
        start = self._system.clock()
        yield
        lasted = self._system.clock() - start
        free = min(lasted, self._aside_s)
        self._aside_s -= free
        self._late_s += lasted - free
        self._since += free
        self._rounds_since += lasted

    @property
    def _spent(self) -> float:
        return self._system.clock() - self._since


Both = Sequence[tuple[Bencher, MeasuredServer]]


def in_turns(parties: Sequence[MeasuredServer], course: Course, system: System, progress: Progress) -> str:
    """Rounds until they tell enough or the time is over, then the answers; why it ended before its time."""
    clock = Clock(system, course.for_speed_s, progress)
    with ExitStack() as stack:
        both = [(stack.enter_context(party.opened(progress)), party) for party in parties]
        if both[0][0].target.url == both[1][0].target.url:
            raise UserError("both are the same server", "name two, or measure with --save, change it, then --against")
        return asked_in_turns(both, course, clock, progress)


def asked_in_turns(both: Both, course: Course, clock: Clock, progress: Progress) -> str:
    """The same of servers that are open; the clock has counted since before they were."""
    for bencher, party in both:
        progress.step(f"warming up: {party.what}", 0.0)
        if why := warm_up(bencher, party, course.work):
            return why
    clock.begin_rounds()
    number = 0
    while clock.has_time(number) and not is_enough(both[0][1].samples, both[1][1].samples):
        number += 1
        clock.say(f"round {number}")
        prompt = prompt_of(both[0][0], course.work)
        for bencher, party in both if number % 2 else reversed(both):
            if why := asked(bencher, party, course.work, prompt, number):
                return why
    if course.answers:
        extent = extent_of(both[0][1], course.for_answers_s)
        for bencher, party in both:
            compare_answers(bencher, party, extent, twice=party is both[0][1])
    return ""


# Two servers that do not fit together: each is started for every round, asked, and ended again.
#
# A round is then a whole life of each of them: where its memory landed stays the same for all requests of one life, so
# only another life tells what that is worth.

FEWEST_EACH, MOST_EACH = 2, 6  # Requests to one life: as many as take about as long as its start


def one_after_the_other(parties: Sequence[MeasuredServer], course: Course, system: System, progress: Progress) -> str:
    """Rounds until they tell enough or the time is over, answers in the first; why it ended before its time."""
    clock = Clock(system, course.for_speed_s, progress, course.for_answers_s)
    number, extent = 0, course.extent
    while clock.has_time(number) and not is_enough(parties[0].samples, parties[1].samples):
        number += 1
        prompts: list[Prompt] = []
        for party in parties if number % 2 else reversed(parties):
            clock.say(f"round {number}: {party.what}")
            with ExitStack() as life:
                bencher = _entered(life, party, progress)
                if bencher is None:
                    return f"{party.what} did not start again in round {number}: {party.failed_starts[-1]}"
                if why := warm_up(bencher, party, course.work):
                    return why
                load_s = bencher.subject.run.load_s.value_or(0.0)
                for prompt in prompts_of_life(bencher, course.work, prompts, load_s):  # the same for both of a round
                    if why := asked(bencher, party, course.work, prompt, number):
                        return why
                if course.answers and number == 1:
                    extent = extent or extent_of(party, course.for_answers_s)
                    with clock.stopped():
                        compare_answers(bencher, party, extent, twice=party is parties[0])
    return ""


def _entered(life: ExitStack, party: MeasuredServer, progress: Progress) -> Bencher | None:
    """Its next life; None where one that was measured before does not start again. UserError where it never did."""
    for _ in range(_TRIES):
        try:
            return life.enter_context(party.opened(progress))
        except UserError as error:
            if not party.samples:
                raise
            party.failed_starts.append(error.message)
    return None


def prompts_of_life(bencher: Bencher, work: Work, prompts: list[Prompt], start_s: float) -> Iterator[Prompt]:
    """As many as take about as long as its start did; the first server of a round makes them for both."""
    if not prompts:
        prompts += [prompt_of(bencher, work) for _ in range(MOST_EACH)]
    end = bencher.system.clock() + start_s
    for count, prompt in enumerate(prompts):
        if count >= FEWEST_EACH and bencher.system.clock() > end:
            return
        yield prompt


HOST_EVERY = 6  # Rounds between two looks at the host's own speed, each of which takes half a second


def measure_alone(party: MeasuredServer, course: Course, system: System, progress: Progress) -> str:
    """Rounds until they are steady or the time is over, then the answers; why it ended before its time."""
    clock = Clock(system, course.for_speed_s, progress)
    with party.opened(progress) as bencher:
        progress.step(f"warming up: {party.what}", 0.0)
        why = warm_up(bencher, party, course.work) or _rounds(bencher, party, course, clock)
        _note_host(party, system)
        telemetry = bencher.sampler.telemetry() if bencher.sampler else None
        party.conditions = conditions_of(telemetry, Run(), bencher.case.machine) if telemetry else {}
        if course.answers and not why:
            extent = course.extent or extent_of(party, course.for_answers_s)
            compare_answers(bencher, party, extent, twice=course.extent is None)
        return why


def _rounds(bencher: Bencher, party: MeasuredServer, course: Course, clock: Clock) -> str:
    clock.begin_rounds()
    number = 0
    while clock.has_time(number) and not is_steady(party.samples):
        if number % HOST_EVERY == 0:
            _note_host(party, bencher.system)
        number += 1
        clock.say(f"round {number}")
        if why := asked(bencher, party, course.work, prompt_of(bencher, course.work), number):
            return why
    return ""


def _note_host(party: MeasuredServer, system: System) -> None:
    """How fast the host reads its memory; nothing where that can't be measured, or the server is elsewhere."""
    if party.is_here and isinstance(speed := read_ram_bandwidth(system).read_bytes_per_s, Known):
        party.host.append(speed.value)

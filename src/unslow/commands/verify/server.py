"""One of the servers of `unslow verify` while it is measured: opened, warmed up, asked, and its answers kept."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

from unslow.catalog.quality import sample_openings, sample_text
from unslow.commands._output import Progress, Silent
from unslow.commands.bench import BenchRequest
from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.commands.bench.protocol import MOST_IN_A_ROW, WARM_UP, WARM_UP_TOKENS, given_up, settle
from unslow.commands.bench.server import Place, context_of, open_bencher, subject_of
from unslow.commands.diagnose.target import as_url, is_live
from unslow.facts.bench import Failure
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case, Subject
from unslow.facts.verification import MOST_ROUNDS, Sample, Side, TokenScores, Work
from unslow.look.bench.timing import ask, score
from unslow.look.command_line import UNSET
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.launch.command import Command, command_without_secrets, parse_command, program_of
from unslow.look.launch.server import START_TIMEOUT_S
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.requests import AskError, Question, ScoredText
from unslow.look.runtimes.llama_cpp.bench import read_written_turns
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback
from unslow.think.case.view import CaseView
from unslow.think.stats.conditions import settings_of
from unslow.think.stats.figures import FEWEST_TOKENS as FEWEST_RATED
from unslow.think.stats.figures import decode_rate, prefill_rate

CASE, KEPT = "verify", "kept"
FEWEST_EACH, MOST_EACH = 2, 6  # Requests to one life: as many as take about as long as its start
_PATIENT_S, _TIMES = 60.0, 4.0
"""A start that takes longer than this, and so many times as long as the longest before, is not waited for."""
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
_OVERRIDES = "--override-kv"  # With it, a file may be said to be trained for more than it says itself


class Prompt(NamedTuple):
    """What is asked in a round: the part that the cache has already, and the new one."""

    kept: str
    new: str


class Extent(NamedTuple):
    """How much is compared: the same for both."""

    tokens: int
    places: int
    questions: int
    seconds: float = LONGEST_S  # For probabilities


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
        self.scored: TokenScores | None = None
        self.not_scored = self.written_turns = ""
        self.host: list[float] = []
        self.conditions: dict[str, float] = {}
        self._case: CaseView | None = None

    @contextmanager
    def open_bencher(self, progress: Progress) -> Iterator[Bencher]:
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

    def note_failure(self, failure: Failure) -> None:
        """Take note of a request that was not answered."""
        if len(self.failures) < MOST_ROUNDS:
            self.failures.append(failure.why)

    def side(self, work: Work) -> Side:
        """What was learned so far."""
        case = self._case or CaseView(Case())
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


def check_room(party: MeasuredServer, place: Place, work: Work) -> None:
    """UserError where the context is known and the request is longer."""
    if party.command:
        room = context_of_command(place.system, party.command)
    else:
        subject = subject_of(place.snapshot, party.model) or Subject()
        room = subject.runtime.context.per_slot.value_or(subject.runtime.context.length.value_or(None))
    need = work.kept_tokens + work.prompt_tokens + work.answer_tokens
    if room is None or need <= room:
        return
    kept = f"{work.kept_tokens:,} cached, " if work.kept_tokens else ""
    asked = f"{kept}{work.prompt_tokens:,} prompt and {work.answer_tokens:,} generated tokens"
    hint = "reduce --prompt, --kept or --answer, or start it with a longer context"
    raise UserError(f"{asked} do not fit: {party.what} has a context of {room:,}", hint)


def context_of_command(system: System, command: Command) -> int | None:
    """The most that one request may have by the command line, or by the model; None where neither tells."""
    program, at = program_of(command.words)
    own = command.words[at:]
    if program.name == "llama.cpp":
        # llama-server cuts a slot's context to what the model was trained for (`n_ctx_slot` in server-context.cpp).
        told = parse_settings(own, command.variables)
        given, path = (told.get(name, UNSET).value for name in ("context", "model"))
        trained = None
        if path and not any(word.startswith(_OVERRIDES) for word in own):
            with suppress(LookError):  # whoever starts it says it better
                trained = model_facts(read_gguf(system, path)).context_trained.value_or(None)
        known = [count for count in (_count(given), trained) if count]
        return min(known, default=None)
    values = [flag.value for flag in program.flags.find_flags(own) if flag.name == program.names.get("context")]
    return _count(values[-1]) if values else None


def _count(word: str) -> int | None:
    """A number of tokens; None of a word that is none, and of 0, which stands for the model's own."""
    return int(word) or None if word.isdecimal() and len(word) <= 12 else None  # noqa: PLR2004 (digits of any context)


def warm_up(bencher: Bencher, party: MeasuredServer, work: Work) -> str:
    """Requests that count for nothing, a short one and one as long as those that count; why it can't be asked."""
    for tokens in (0, work.prompt_tokens + work.kept_tokens):
        done = bencher.ask(BenchWish(WARM_UP, WARM_UP_TOKENS, tokens, round=0))
        if isinstance(done, Failure):
            party.note_failure(done)
            return f"{party.what} did not respond: {done.why}"
        settle(bencher)
    return ""


def prompts_of_life(bencher: Bencher, work: Work, prompts: list[Prompt], start_s: float) -> Iterator[Prompt]:
    """As many as take about as long as its start did; the first server of a round makes them for both."""
    if not prompts:
        prompts += [prompt_of(bencher, work) for _ in range(MOST_EACH)]
    end = bencher.system.clock() + start_s
    for count, prompt in enumerate(prompts):
        if count >= FEWEST_EACH and bencher.system.clock() > end:
            return
        yield prompt


def prompt_of(bencher: Bencher, work: Work) -> Prompt:
    """A prompt that no cache has seen; both servers of a round are asked the same."""
    kept = bencher.prompts.prompt(work.kept_tokens) if work.kept_tokens else ""
    return Prompt(kept, bencher.prompts.prompt(max(1, work.prompt_tokens)))


def measure_request(bencher: Bencher, party: MeasuredServer, work: Work, prompt: Prompt, number: int) -> str:
    """Ask, and keep what it took; why there is no point in asking on."""
    if prompt.kept:
        bencher.ask(BenchWish(KEPT, 1, prompt=prompt.kept, round=0, keep=True))
    text = f"{prompt.kept}\n{prompt.new}" if prompt.kept else prompt.new
    done = bencher.ask(BenchWish(CASE, work.answer_tokens, prompt=text, round=number, keep=bool(prompt.kept)))
    if isinstance(done, Failure):
        party.note_failure(done)
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


def extent_of(party: MeasuredServer, seconds: float) -> Extent:
    """As much as the time is enough for, by how fast the server is."""
    decode = min(filter(None, (sample.decode_tokens_per_s for sample in party.samples)), default=0.0)
    prefill = min(filter(None, (sample.prefill_tokens_per_s for sample in party.samples)), default=decode)
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
    bencher.progress.step(f"comparing token probabilities: {party.what}", 0.9)
    text = ScoredText(sample_text(), extent.places, extent.seconds, context_of(bencher), bencher.slot)
    try:
        party.scored = score(bencher.system, bencher.target, text)
    except LookError as error:
        party.not_scored = error.why
    settle(bencher)


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


def spread_questions(questions: Sequence[str], number: int) -> list[str]:
    """So many of all, spread over their kinds."""
    return [questions[place * len(questions) // number] for place in range(number)]

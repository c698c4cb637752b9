"""One request alone, then several at the same time: what more users get, and what each of them waits for.

On a llama-server each is sent to a slot of its own that holds no conversation. The answers come in any order, so that
a recording holds only what was made of them.
"""

from threading import Thread
from typing import Any, NamedTuple

import msgspec

from unslow.facts.bounded import bounded
from unslow.facts.run import AtOnce, Run
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.values import Absence, measured
from unslow.look.bench.asking import ask
from unslow.look.bench.completions import Progress
from unslow.look.bench.guest import AskError, Plan, Question, Reply, Target
from unslow.look.bench.trials._asker import Asker
from unslow.look.system import LookError, System, unknown

USUAL, USUAL_IN_BATCHES = 4, 8
MOST = 64
PROMPT_TOKENS = 64
"""At most, of the protocol's prompts."""
_FEWEST_TIMED = 4


class Answered(NamedTuple):
    """An answer, and when its request was sent."""

    start_s: float
    reply: Reply

    @property
    def last_s(self) -> float:
        """When the last token came."""
        return self.start_s + self.reply.arrivals_s[-1]

    @property
    def decode_s(self) -> float:
        """How long the tokens after the first took; the server knows even where a busy client reads them late."""
        told, arrivals = self.reply.server_decode_s, self.reply.arrivals_s
        return max(arrivals[-1] - arrivals[0] if told is None else told, 1e-6)

    def tokens_in(self, start_s: float, end_s: float) -> float:
        """Tokens after the first that came in a stretch of time, as evenly as they come."""
        within_s = min(self.last_s, end_s) - max(self.last_s - self.decode_s, start_s)
        return (self.reply.generated_tokens - 1) * max(0.0, within_s) / self.decode_s


def perform(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """One, then several."""
    try:
        counts = _counts(target, plan)
        found = _measured(Asker(system, target, plan), counts, progress)
    except LookError as error:
        return Run(at_once=unknown(error))
    return bounded(Run(at_once=measured(found, f"{counts[-1]} requests at the same time at {target.url}")))


def _counts(target: Target, plan: Plan) -> tuple[int, int]:
    usual = USUAL_IN_BATCHES if target.runtime.startswith(IN_BATCHES) else USUAL
    wanted = plan.at_once or len(plan.slots) or (usual if plan.slot is None else 1)
    if wanted < 2:  # noqa: PLR2004 (one is not several)
        raise LookError("only one slot holds no conversation", Absence.NOT_FOUND, "measure with --evict")
    return 1, min(MOST, wanted)


def _measured(asker: Asker, counts: tuple[int, int], progress: Progress) -> tuple[AtOnce, ...]:
    progress("asking a short question, to see how many tokens there is time for", 0.0)
    asker.warm_up()
    # at worst they are answered one after the other, so that each may take its share of the time
    seconds = min(asker.plan.seconds_per_completion, asker.plan.seconds / (sum(counts) + 1))
    tokens = asker.tokens_in(seconds)
    asker.check_answers(sum(counts), tokens)
    if asker.room() < (counts[-1] if asker.is_shared else 1) * (tokens + PROMPT_TOKENS):
        raise LookError(f"the context has no room for {counts[-1]} answers at once", Absence.NOT_FOUND)
    found = []
    for number, count in enumerate(counts, 1):
        progress(f"{count} request{'s' if count > 1 else ''} at the same time, {tokens} tokens each", number / 3)
        found.append(_together(asker, count, tokens))
    return tuple(found)


def _together(asker: Asker, count: int, tokens: int) -> AtOnce:
    questions = [asker.question(asker.prompts.prompt(), tokens, slot=_slot(asker.plan, n)) for n in range(count)]
    raw = asker.system.ask(f"at once {count}", lambda: _ask_all(asker.system.live(), asker.target, questions))
    try:
        return msgspec.convert(raw, AtOnce)
    except msgspec.ValidationError as error:
        raise LookError(f"the requests at the same time do not fit: {error}") from error


def _slot(plan: Plan, number: int) -> int | None:
    return plan.slots[number % len(plan.slots)] if plan.slots else plan.slot


def _ask_all(system: System, target: Target, questions: list[Question]) -> Any:
    """Each question on a connection of its own; LookError where any is not answered. Ctrl-C waits for none."""
    answers: list[Answered | AskError] = []

    def one(question: Question) -> None:
        start_s = system.clock()
        try:
            answers.append(Answered(start_s, ask(system, target, question)))
        except AskError as error:
            answers.append(error)

    threads = [Thread(target=one, args=(question,), daemon=True) for question in questions]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:
        raise LookError(f"this machine has no room for so many threads: {error}") from error
    for thread in threads:
        thread.join()
    return msgspec.to_builtins(at_once_of(answers))


def at_once_of(answers: list[Answered | AskError]) -> AtOnce:
    """The speed of all together; LookError where one failed, or came in one piece."""
    whole = []
    for answer in answers:
        if isinstance(answer, AskError):
            raise LookError(f"of {len(answers)} requests at the same time, one failed: {answer.why}")
        if len(answer.reply.arrivals_s) < 2 or answer.reply.generated_tokens <= _FEWEST_TIMED:  # noqa: PLR2004
            raise LookError("the answers came in one piece, or ended too early to be timed")
        whole.append(answer)
    return AtOnce(
        requests=len(whole),
        tokens_per_s=_tokens_per_s(whole),
        first_token_s=max(answer.reply.arrivals_s[0] for answer in whole),
    )


def _tokens_per_s(whole: list[Answered]) -> float:
    """While all were generating; from the first token to the last where they never all were, as in a queue."""
    starts_s, ends_s = [answer.last_s - answer.decode_s for answer in whole], [answer.last_s for answer in whole]
    start_s, end_s = max(starts_s), min(ends_s)
    if sum(answer.tokens_in(start_s, end_s) for answer in whole) < _FEWEST_TIMED * len(whole):
        start_s, end_s = min(starts_s), max(ends_s)
    return sum(answer.tokens_in(start_s, end_s) for answer in whole) / (end_s - start_s)

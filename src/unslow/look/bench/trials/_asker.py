"""One who asks a server for a trial: unlike prompts, within the time, and only as much as there is room for."""

from contextlib import suppress
from typing import Any, NamedTuple

from unslow.facts.values import Absence
from unslow.look.bench.asking import ask
from unslow.look.bench.completions import FEWEST_TOKENS
from unslow.look.bench.guest import Plan, Question, Reply, Target
from unslow.look.bench.prompts import Prompts
from unslow.look.bench.timed import completion_of, decode_rate
from unslow.look.bench.watched import WARM_UP_TOKENS
from unslow.look.json_fields import objects
from unslow.look.system import LookError, System

UNKNOWN_CONTEXT = 2048
"""The smallest that a runtime has without being told: Ollama's, once."""
MARGIN = 0.95
"""Of the context: where there is no tokenizer to ask, the length of a prompt is a few percent off."""
_PATIENCE_S = 10.0
_FAR_TOO_LONG = 2.0
_LEFT_TOKENS = 512
"""As many as the usual measurement leaves."""
_KEPT = 0.65
"""Of a prompt, so that more than half of it and of its answer stays."""
_USUAL_TOKENS = 128
_FEWEST_TIMED = 8  # with fewer, a single late token makes a tenth of the speed


class Wanted(NamedTuple):
    """A length of prompt that would be good to have, and what it is for."""

    what: str
    fewest: int
    most: int


class Asker:
    """Asks one question after the other; LookError, and nothing else, where an answer does not come."""

    def __init__(self, system: System, target: Target, plan: Plan) -> None:
        self.system, self.target, self.plan = system, target, plan
        self.prompts = Prompts(system, target)
        self.spent_s = 0.0
        """In requests so far, by the client's clock."""
        self._patience_s = _PATIENCE_S + 2 * plan.seconds
        self._decode, self._prefill = plan.decode_tokens_per_s, plan.prefill_tokens_per_s
        self.shortest_first_s: float | None = None
        """Until the first token of the shortest question, where one was asked."""

    def ask(self, prompt: str, tokens: int, **changes: Any) -> Reply:
        """The answer to this prompt, on the slot of the plan."""
        reply = ask(self.system, self.target, self.question(prompt, tokens, **changes))
        self.prompts.learn(len(prompt.split()), reply.prompt_tokens + reply.cached_tokens)
        self.spent_s += reply.total_s
        return reply

    def question(self, prompt: str, tokens: int, **changes: Any) -> Question:
        """The question as the plan wants it, with a limit to the patience."""
        wanted: dict[str, Any] = {"slot": self.plan.slot, "silence_s": self._patience_s, "deadline_s": self._patience_s}
        return Question(prompt, tokens, **(wanted | changes))

    def warm_up(self) -> None:
        """A short question, unless what it would tell is known: how fast the server is, how long a word."""
        if not (self._decode and self._prefill):
            self.short()

    def short(self) -> Reply:
        """The shortest question."""
        reply = self.ask(self.prompts.prompt(), WARM_UP_TOKENS)
        self.shortest_first_s = first_token_s(reply)
        with suppress(LookError):  # one that came in one piece
            self._decode = self._decode or rate_of(reply, least=2)
        self._prefill = self._prefill or reply.prompt_tokens / max(prefill_s(reply), 1e-6)
        return reply

    def tokens_in(self, seconds: float, most: int = _USUAL_TOKENS) -> int:
        """Tokens of an answer that fit into so much time, within bounds."""
        return max(FEWEST_TOKENS, min(most, int((self._decode or 0.0) * seconds)))

    def prompt_in(self, seconds: float, wanted: Wanted, answer: int) -> int:
        """Tokens of a prompt that fit into so much time, and with its answer into the context; LookError if too few."""
        room, fitting = int(self.room() * MARGIN) - answer, int((self._prefill or 0.0) * seconds)
        if room < wanted.fewest:
            why = f"the context has no room for {wanted.what}: {max(0, room)} tokens are left of it"
            raise LookError(why, Absence.NOT_FOUND, "give the server a larger context")
        if fitting < wanted.fewest:
            raise too_slow(wanted.what, wanted.fewest / max(self._prefill or 0.0, 1e-3))
        return min(wanted.most, room, fitting)

    def check_answers(self, answers: int, tokens: int) -> None:
        """LookError where so many answers would take far longer than the trial should."""
        seconds = answers * tokens / max(self._decode or 0.0, 1e-3)
        if seconds > _FAR_TOO_LONG * self.plan.seconds:
            raise too_slow(f"{answers} answers of {tokens} tokens", seconds)

    def room(self) -> int:
        """Tokens for a prompt and its answer that push out nothing of anybody else's."""
        context = self.plan.context or self.target.context or 0
        if not self.target.runtime.endswith("llama.cpp"):
            return context or UNKNOWN_CONTEXT
        own, held = self._slots()
        context = min(context or own, own or context) or UNKNOWN_CONTEXT
        return max(0, context - held) if self.is_shared else context

    @property
    def is_shared(self) -> bool:
        """Whether requests at the same time have to do with one context; other runtimes give each its own."""
        return self.plan.shared and self.target.runtime.endswith("llama.cpp")

    def _slots(self) -> tuple[int, int]:
        """The context of a slot, and what the other slots of a llama-server hold; zeros where it does not tell."""
        try:
            slots = objects({"slots": self.target.server(self.system).json("/slots")}, "slots")
        except LookError:
            return 0, 0
        others = [slot for slot in slots if slot.get("id") not in (self.plan.slot, *self.plan.slots)]
        return max(map(_count("n_ctx"), slots), default=0), sum(map(_count("n_prompt_tokens"), others))

    def leave(self, prompt: str, reply: Reply) -> None:
        """Leave little in a llama-server's slot, where a long prompt was asked.

        Whatever a slot holds when a stranger to it comes is copied to a cache in RAM, where it could push out what
        others left there. A prompt that keeps at least half of the slot is no stranger, so it is cut down by halves.
        """
        if self.plan.slot is None or not self.target.runtime.endswith("llama.cpp"):
            return
        words, held = prompt.split(" "), reply.prompt_tokens + reply.cached_tokens + reply.generated_tokens
        with suppress(LookError):
            # at worst a model that can't go back in its cache reads what is left of the prompt once more
            while held > _LEFT_TOKENS and self.has_time(_KEPT * held / max(self._prefill or 0.0, 1e-3)):
                words = words[: int(_KEPT * len(words))]
                shorter = self.ask(" ".join(words), 1, keep=True)
                if shorter.prompt_tokens > shorter.cached_tokens:
                    return  # it would do so each time
                held = shorter.prompt_tokens + shorter.cached_tokens

    def has_time(self, seconds: float) -> bool:
        """Whether so much more fits into the time of the trial."""
        return self.spent_s + seconds <= self.plan.seconds


def _count(name: str) -> Any:
    def count(slot: dict[str, Any]) -> int:
        value = slot.get(name)
        return value if type(value) is int and value > 0 else 0

    return count


def rate_of(reply: Reply, least: int = _FEWEST_TIMED) -> float:
    """Tokens per second of an answer; LookError where it came in one piece, or ended too early to be timed."""
    if reply.generated_tokens < least:
        raise LookError(f"the answer ended after {reply.generated_tokens} tokens, too early to be timed")
    return decode_rate(completion_of(reply))


def first_token_s(reply: Reply) -> float:
    """Until the first token was there, by the client's clock."""
    return reply.arrivals_s[0] if reply.arrivals_s else reply.total_s


def prefill_s(reply: Reply) -> float:
    """How long the prompt took: by the server's clock, else until the first token came."""
    return reply.server_prefill_s if reply.server_prefill_s is not None else first_token_s(reply)


def too_slow(what: str, seconds: float) -> LookError:
    """Why there is no such trial."""
    why = f"the server is too slow for {what} in the time that is left: it would take {seconds:.0f} s"
    return LookError(why, Absence.NOT_FOUND, "measure with --thorough")

"""A server that is measured, and how: what every dialect of asking needs to know."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.bench import FailureKind
from unslow.facts.run import Completion
from unslow.facts.values import Absence
from unslow.look.openai_api.server import Server
from unslow.look.system import LookError, System


class Plan(NamedTuple):
    """How long to measure, where on the server, and what is known of it beforehand."""

    seconds_per_completion: float = 6.0
    slot: int | None = None
    slots: tuple[int, ...] = ()
    """Slots of a llama-server that hold no conversation: requests at the same time are spread over them."""
    at_once: int = 0
    """Requests at the same time; 0 for as many as there are such slots, or the trial's usual number."""
    context: int | None = None
    """Tokens that a prompt and its answer may have together; None for the context that the target tells."""
    shared: bool = True
    """Whether the slots of a llama-server share one cache, so that what others hold there leaves less room."""
    seconds: float = 20.0
    """About how long a trial beyond the usual measurement may take."""
    watch_s: float = 6.0
    """How long a trial that only watches does so."""
    prefill_tokens_per_s: float | None = None
    decode_tokens_per_s: float | None = None
    """As measured already; else a trial asks a short question first, to learn how much fits into its time."""


class Target(NamedTuple):
    """A server to measure: its process is known where it runs on this machine."""

    url: str
    api_key: str = ""
    pid: int | None = None
    runtime: str = "llama.cpp"
    model: str = ""
    context: int | None = None
    """The context that the model is loaded with, for servers that would load it anew for another."""

    def server(self, system: System) -> Server:
        """The server, to be asked."""
        return Server(system, self.url, self.api_key)


class Timed(NamedTuple):
    """A completion and who timed it."""

    completion: Completion
    clock: str
    prompt_timed: bool = True
    """Whether the time of the prompt is the server's own, without the way there and the queue."""
    thinking_tokens: int | None = None


class Question(NamedTuple):
    """One request of a benchmark."""

    prompt: str
    tokens: int
    slot: int | None = None
    keep: bool = False
    """Whether a prompt cache may answer, and keep it; else every token of the prompt is computed."""
    greedy: bool = False
    """Whether to take the likeliest token without any sampler, where the runtime can; else as it is set up."""
    stream: bool = True
    silence_s: float = 300.0
    """A server that says nothing for so long has stalled."""
    deadline_s: float = 3600.0
    cache_as_set: bool = False
    """Whether it is left to the server's own settings what its cache does, as most clients leave it."""


class Reply(NamedTuple):
    """What came back: the same meaning on every runtime, or None where it does not tell."""

    prompt_tokens: int
    """Those that were computed for this request."""
    generated_tokens: int
    arrivals_s: tuple[float, ...]
    """When each piece of text came, since the request was sent."""
    total_s: float
    clock: str
    """Whose times these are."""
    cached_tokens: int = 0
    thinking_tokens: int | None = None
    ended_early: bool = False
    server_prefill_s: float | None = None
    server_decode_s: float | None = None
    """For the tokens after the first."""
    server_load_s: float | None = None
    server_queue_s: float | None = None
    text: str = ""
    """The start of the answer, for the next turn of a conversation; kept nowhere."""
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    """Of speculative decoding, where the server counts it."""


class AskError(LookError):
    """A request that was not answered whole: how it failed, and how many pieces had come by then."""

    def __init__(
        self, kind: FailureKind, why: str, pieces: int = 0, how_to_get: str = "", *, arrivals_s: Sequence[float] = ()
    ) -> None:
        super().__init__(why, Absence.FAILED, how_to_get)
        self.kind = kind
        self.pieces = pieces
        self.arrivals_s = tuple(arrivals_s)

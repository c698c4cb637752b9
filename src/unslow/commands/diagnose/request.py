"""What was asked of a diagnosis: its time, what it may do with a server of others, keys that are kept secret."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from unslow.commands._diagnosis_options import Looking
from unslow.commands._output import Progress
from unslow.commands.diagnose.target import as_url
from unslow.facts.errors import UserError
from unslow.facts.machine import Facts
from unslow.facts.masking import data_without_keys, is_secret, keyless, without_keys
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject, Wish
from unslow.facts.values import NOT_LOOKED, Absence, Fact, Known, Unknown, first_known, not_found, reported
from unslow.think.judge.next_measurement import Choice

Ended = Literal["enough", "late", "stopped"]


class Limits(NamedTuple):
    """What the user gives it time for."""

    seconds: float  # From the first look to the report
    seconds_per_completion: float
    patience: float = 1.0  # How much longer than usual a trial may take, and how much less may come of it
    only: tuple[str, ...] = ()  # The measurements to make, where not all that are worth it are wanted


QUICK, USUAL, THOROUGH = Limits(10.0, 0.7, 0.5), Limits(60.0, 4.0), Limits(300.0, 6.0, 2.5)
_MOST_LISTED = 2
_A_SPEED = 15.0
"""Completions in all of the time: five of them may be needed, and leave most of it to other measurements."""


def limits_of(request: Looking) -> Limits:
    """What a request gives it time for: the usual ones, or those for a time between them."""
    if request.seconds is None:
        return QUICK if request.quick else THOROUGH if request.thorough else USUAL
    seconds = request.seconds
    like = QUICK if seconds <= QUICK.seconds else USUAL if seconds < THOROUGH.seconds else THOROUGH
    each = min(like.seconds_per_completion, max(QUICK.seconds_per_completion, seconds / _A_SPEED))
    return like._replace(seconds=seconds, seconds_per_completion=each)


class Step(NamedTuple):
    """One measurement: the number of the subject, and which."""

    subject: int
    name: str


class Course(msgspec.Struct, frozen=True):
    """How the measuring went: enough for a recording to go the same way."""

    steps: tuple[Step, ...] = ()
    ended: Ended = "enough"
    seconds: float = 0.0


def notes_on(course: Course, missing: Sequence[Choice]) -> tuple[str, ...]:
    """What a reader must know of a diagnosis that ended before it had enough."""
    if course.ended == "stopped":
        rest = f", before {_listed(missing)}" if missing else ", when nothing more was worth measuring"
        return (f"The measuring was stopped after {course.seconds:.0f} s{rest}.",)
    if course.ended == "late" and missing:
        return (f"There was no time for {_listed(missing)}; --thorough takes up to {THOROUGH.seconds:.0f} s.",)
    return ()


def _listed(choices: Sequence[Choice]) -> str:
    words = "; ".join(f"{c.measurement.doing}, {c.measurement.why}" for c in choices[:_MOST_LISTED])
    more = len(choices) - _MOST_LISTED
    return f"{words}; and {more} more" if more > 0 else words


EVICT = "measure with --evict"  # How to measure where the prompt cache of a conversation is in the way
EVICTED = "one conversation's prompt cache is evicted: its next turn reads the whole prompt again"
MANY_CONVERSATIONS = ("vLLM", "SGLang", "TGI")
"""Runtimes whose cache has room for many prompts: a short one pushes out none that is still of use."""
_OLLAMA_KEEPS_PUSHED_OUT = (0, 30)  # since then a llama-server, which keeps such caches in system memory


def refusal(subject: Subject, *, passive: bool = False) -> Unknown | None:
    """Why the server is not measured; None where nothing that is known speaks against it."""
    runtime = subject.runtime
    if passive:
        return not_found("--passive was given", "run without --passive")
    if not isinstance(runtime.url, Known):
        return not_found("its address is not known", "give its URL as TARGET")
    if runtime.embedded:
        return None
    if isinstance(runtime.state, Unknown):
        looked = runtime.state.absence is Absence.NOT_FOUND  # it answered, and that there is nothing to measure
        why = runtime.state.why if looked else f"it does not answer as a server does: {runtime.state.why}"
        return not_found(why, runtime.state.how_to_get)
    if runtime.state.value != "loaded":
        return not_found(f"its model is {runtime.state.value}", "try again when it is loaded")
    in_work = requests_in_work(runtime)
    if isinstance(in_work, Known):
        return busy(in_work.value) if in_work.value else None
    # A llama-server can say whether it is busy; of others that can't, `caution` tells
    if not is_llama_server(runtime):
        return None
    return not_found(f"it does not say whether it is busy: {in_work.why}", in_work.how_to_get or "is it alive?")


def busy(requests: int) -> Unknown:
    """Why a server that works for others is not asked for more."""
    return not_found(f"it is busy with {requests} request{'s' if requests > 1 else ''}", "try again when it is idle")


def requests_in_work(runtime: Runtime) -> Fact[int]:
    """How many requests it answers now."""
    return first_known(runtime.busy_slots, runtime.running_requests)


def caution(runtime: Runtime) -> str:
    """What a measurement may be wrong by; empty where nothing is known of."""
    if runtime.embedded or isinstance(requests_in_work(runtime), Known):
        return ""
    return "it does not say whether it is busy: with other requests in work, both would be slower"


def pushes_out(runtime: Runtime) -> Unknown | None:
    """Why measuring might cost somebody the cache of their conversation; for a llama-server its slots tell."""
    name = runtime.name.value_or("")
    if is_llama_server(runtime) or name in MANY_CONVERSATIONS or runtime.longest_sequence.value_or(None) == 0:
        return None
    if name == "Ollama" and version_of(runtime) >= _OLLAMA_KEEPS_PUSHED_OUT:
        return None
    return not_found("a measurement might push out the cache of a conversation", EVICT)


def is_llama_server(runtime: Runtime) -> bool:
    """Whether it is llama.cpp's own server, which shows its slots; nameless ones are taken for it."""
    return runtime.name.value_or("llama.cpp").endswith("llama.cpp")


def version_of(runtime: Runtime) -> tuple[int, ...]:
    """The numbers of a version such as 0.33.0; none where it is unknown or written otherwise."""
    parts = runtime.version.value_or("").split("-")[0].split(".")
    return tuple(int(part) for part in parts) if all(part.isdecimal() and len(part) < 6 for part in parts) else ()  # noqa: PLR2004 (no version has a million)


# Keeps keys out of everything that leaves the program: facts, messages, errors.
#
# Runtimes take keys out of what they read; this is the last door, for what none of them thought of.

F = TypeVar("F", bound=Facts)


class Discretion(NamedTuple):
    """The keys that must not be seen."""

    keys: tuple[str, ...]

    @classmethod
    def about(cls, api_key: str | None, target: str | None) -> "Discretion":
        """Of the key that the user gave, and of what stands before the @ of a target that is a URL."""
        return cls(tuple(key for key in (api_key or "", *userinfo(as_url(target or "") or "")) if is_secret(key)))

    def facts(self, facts: F) -> F:
        """The facts without these keys and without whatever looks like one; the very same where none is in them."""
        raw = msgspec.to_builtins(facts)
        clean = data_without_keys(raw, *self.keys) if self.keys else raw
        return keyless(msgspec.convert(clean, type(facts)) if clean != raw else facts)

    def progress(self, progress: Progress) -> Progress:
        """A progress that shows no key."""
        return _Hushed(progress, self.keys) if self.keys else progress

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors for the user, without the keys."""
        try:
            yield
        except UserError as error:
            if not self.keys:
                raise
            raise UserError(without_keys(error.message, *self.keys), without_keys(error.hint, *self.keys)) from None


class _Hushed:
    def __init__(self, progress: Progress, keys: tuple[str, ...]) -> None:
        self._progress, self._keys = progress, keys

    def say(self, text: str) -> None:
        self._progress.say(without_keys(text, *self._keys))

    def step(self, text: str, share: float) -> None:
        self._progress.step(without_keys(text, *self._keys), share)


def userinfo(url: str) -> list[str]:
    """The name and the password of a URL, as written and as meant."""
    before, at, _ = url.partition("://")[2].partition("/")[0].rpartition("@")  # also where the rest is no URL
    words = [word for word in before.split(":", 1) if word] if at else []
    return [*words, *(meant for word in words if (meant := unquote(word)) != word)]


L = TypeVar("L", bound=Looking)


def resolve_request(request: L) -> L:
    """The request with the key of the environment where none was given, and the whole path of its log."""
    key = request.api_key or os.environ.get("UNSLOW_API_KEY")
    return request._replace(api_key=key, log=str(Path(request.log).resolve()) if request.log else None)


def wish_of(request: Looking) -> Wish:
    """What the user wants, as facts."""
    return Wish(
        context_tokens=NOT_LOOKED if request.context is None else reported(request.context, "--context"),
        tokens_per_s=NOT_LOOKED if request.goal is None else reported(request.goal, "--goal"),
    )


def with_wish(snapshot: Snapshot, request: Looking) -> Snapshot:
    """What was seen before, with the wishes of now where there are any."""
    if request.goal is None and request.context is None:
        return snapshot
    return msgspec.structs.replace(snapshot, wish=wish_of(request))


RECORDED_REQUEST = "diagnosis"


class RecordedRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request and the course as a recording holds them: without the key."""

    url: str | None = None
    target: str | None = None
    """A process id."""
    passive: bool = False
    evict: bool = False
    goal: float | None = None
    context: int | None = None
    log: str | None = None
    shape: str | None = None
    limits: Limits = USUAL
    course: Course = Course()


def request_to_record(request: Looking, url: str | None, limits: Limits, course: Course) -> Any:
    """What is recorded of a diagnosis of that URL, or of what the request names."""
    target, shape = None if url else request.target, request.model
    asked = (request.passive, request.evict, request.goal, request.context, request.log, shape)
    return msgspec.to_builtins(RecordedRequest(url, target, *asked, limits, course))


def recorded_request(raw: Any) -> tuple[Looking, RecordedRequest]:
    """The request again, and all that was recorded of it; UserError where a recording holds something else."""
    try:
        kept = msgspec.convert(raw, RecordedRequest)
    except msgspec.ValidationError as error:
        raise UserError(f"the recording of a diagnosis does not fit: {error}", "record it again") from error
    same = {name: getattr(kept, name) for name in ("passive", "evict", "goal", "context", "log")}
    return Looking(target=kept.url or kept.target, model=kept.shape, **same), kept

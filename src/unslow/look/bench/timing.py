"""One request of a benchmark, in the words of whatever runtime answers: asked, scored, timed."""

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple, cast

import msgspec

from unslow.facts.bench import FailureKind
from unslow.facts.run import Completion, Run, Span, Telemetry
from unslow.facts.values import Absence, Fact, Known, Unknown, measured_fact
from unslow.facts.verification import TokenScores
from unslow.look.kernel.processors import (
    CpuSample,
    CpuUse,
    cpus_between,
    process_family,
    read_cpu_sample,
    read_own_pid,
    read_run_delay,
)
from unslow.look.observer import ObservedAnswer, current_observer
from unslow.look.requests import AskError, PartialAnswer, Plan, Question, Reply, ScoredText, Target, TimedCompletion
from unslow.look.runtimes import looker_of, openai_compatible
from unslow.look.sampler import Sampler
from unslow.look.sampler.timeline import UNDER_LOAD, decode_phase, throttled_fraction, under_load
from unslow.look.system import (
    SILENCE_S,
    STREAM_TIMEOUT_S,
    ExchangeError,
    LookError,
    System,
    convert_answer,
    read_text,
    try_fact,
    try_look,
    unknown,
    was_closed,
)
from unslow.look.system.http import is_local_url

Dialect = Callable[[System, Target, Question, PartialAnswer], Reply]
"""A runtime's `ask`: sends it, fills what was heard as the answer comes; LookError where the server can't or won't."""
_Timing = Callable[[System, Target], Callable[[Reply], Reply]]
"""Of a runtime whose answers carry no times: what it counts before a request, and by what it counts after it, those."""
_Scorer = Callable[[System, Target, ScoredText], TokenScores]
_ENDED = re.compile(r"\) [ZXx] ")
"""The state of a process of which only its number is left, as /proc/PID/stat has it after the name."""
FEWEST_PAUSES = 12  # Between the pieces of an answer: fewer do not tell steps from chance
SAME_STEP = 0.3  # Of the pause between two steps: what comes earlier belongs to the same
LEAST_PAUSE_S = 0.5  # A pause that everybody sees
LEAST_TOKENS = 16  # Times a token's own time: more than any step of speculative decoding gives at once
FEWEST_AT_ONCE, AT_ONCE = 8, 0.1  # Pieces that follow within this share of the pause
_FEWEST_TIMED, _SHORTEST_PROMPT = 8, 64
"""Tokens of an answer and of a prompt: fewer time the start of a request rather than its tokens."""
_BY_TOKEN = ("llama.cpp", "Ollama")  # Runtimes that send each token as a piece of its own
_FEWEST_CUT = 4  # Tokens of an answer that was cut off: fewer tell no speed
_MOST_PROCESSES = 64  # Of one server: an engine, its workers and their helpers
QUESTION = "telemetry"  # The name under which a recording holds the summary; the samples themselves pass it by
WARM_UP_TOKENS = 16


def ask(system: System, target: Target, question: Question) -> Reply:
    """Ask, and wait for the whole answer; AskError, and nothing else, where it does not come."""
    heard = PartialAnswer()
    start_timing = cast("_Timing | None", getattr(looker_of(target.runtime), "start_timing", None))
    finish = start_timing(system, target) if start_timing and question.alone else None
    try:
        reply = dialect_of(target.runtime)(system, target, question, heard)
        return finish(reply) if finish else reply
    except LookError as error:
        pieces = len(heard.arrivals)
        kind: FailureKind = "error"
        if isinstance(error, ExchangeError):
            silent: FailureKind = "stalled" if pieces else "not_answered"
            kind = silent if error.kind == "silent" else error.kind
        if kind in ("refused", "broke_off") and is_gone(system, target.pid):
            kind = "gone"
        raise AskError(kind, error.why, pieces, error.how_to_get, arrivals_s=heard.arrivals) from error


def is_gone(system: System, pid: int | None) -> bool:
    """Whether the process has ended; False where that can't be told, as without /proc."""
    if pid is None:
        return False
    try:
        return bool(_ENDED.search(read_text(system, f"/proc/{pid}/stat")))
    except LookError as error:
        return error.absence is Absence.NOT_FOUND and bool(try_look(b"", system.read_bytes, "/proc/self/stat"))


def dialect_of(runtime: str) -> Dialect:
    """The dialect of a runtime by its name; what has none of its own speaks OpenAI's."""
    return cast("Dialect", getattr(looker_of(runtime), "ask", openai_compatible.ask))


def score(system: System, target: Target, text: ScoredText) -> TokenScores:
    """Ask; LookError where the runtime gives no probabilities of a given text, or the answer holds none."""
    scorer = cast("_Scorer | None", getattr(looker_of(target.runtime), "score", None))
    if scorer is None:
        raise LookError(f"{target.runtime} returns no probabilities for a given text", Absence.NOT_SUPPORTED)
    return scorer(system, target, text)


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> TimedCompletion:
    """One request for that many tokens, in the words of the server's runtime; LookError where none can be timed."""
    limits: dict[str, Any] = {"silence_s": SILENCE_S, "deadline_s": STREAM_TIMEOUT_S}
    reply = ask(system, target, Question(prompt, tokens, plan.slot, alone=True, **limits))
    done = completion_of(reply)
    if watcher := current_observer():
        read = done.prompt_tokens - done.cached_tokens
        seen = ObservedAnswer(
            case="diagnosis",
            prompt_tokens=read,
            generated_tokens=done.generated_tokens,
            decode_tokens_per_s=decode_rate(done) if done.generated_tokens >= _FEWEST_TIMED else None,
            prefill_tokens_per_s=read / done.prefill_s if read >= _SHORTEST_PROMPT and done.prefill_s > 0 else None,
        )
        watcher.on_answer(seen)
    return TimedCompletion(done, reply.clock, reply.server_prefill_s is not None, reply.thinking_tokens)


def complete_as_far_as_possible(
    system: System, target: Target, plan: Plan, wanted: tuple[str, int]
) -> tuple[TimedCompletion, bool]:
    """A completion, and whether it is whole: one that the end of the time cut off is as good as what came of it."""
    try:
        return complete(system, target, plan, *wanted), True
    except LookError as error:
        arrivals = error.arrivals_s if isinstance(error, AskError) and was_closed(error) else ()
        if len(arrivals) < _FEWEST_CUT or not target.runtime.endswith(_BY_TOKEN) or arrivals[-1] <= arrivals[0]:
            raise
        completion = Completion(
            prompt_tokens=0,
            generated_tokens=len(arrivals),
            prefill_s=arrivals[0],
            decode_s=arrivals[-1] - arrivals[0],
            client_first_token_s=arrivals[0],
            client_total_s=arrivals[-1],
            timed_by_client=True,
        )
        return TimedCompletion(completion, "client clock, of a response that was cut short", prompt_timed=False), False


def completion_of(reply: Reply) -> Completion:
    """The reply by the server's clock, else by the client's; LookError where it came in one piece."""
    first_s, last_s = (reply.arrivals_s[0], reply.arrivals_s[-1]) if reply.arrivals_s else (reply.total_s,) * 2
    decode_s = reply.server_decode_s if reply.server_decode_s is not None else last_s - first_s
    if decode_s <= 0 or (reply.server_decode_s is None and reply.generated_tokens < 2):  # noqa: PLR2004 (a step has two ends)
        raise LookError("the response came in one piece, so its speed is unknown", how_to_get="is a proxy in between?")
    return Completion(
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        generated_tokens=reply.generated_tokens,
        prefill_s=reply.server_prefill_s if reply.server_prefill_s is not None else first_s,
        decode_s=decode_s,
        client_first_token_s=first_s,
        client_total_s=reply.total_s,
        timed_by_client=reply.server_decode_s is None,
        held_back_s=stream_delay_s(reply.arrivals_s, decode_s / max(1, reply.generated_tokens)),
        drafted_tokens=reply.drafted_tokens,
        accepted_tokens=reply.accepted_tokens,
        pieces_at_once=pieces_at_once(reply.arrivals_s),
    )


def decode_rate(completion: Completion) -> float:
    """Tokens per second by the server's clock: the first token belongs to the prompt, so n tokens took n - 1 steps."""
    return max(1, completion.generated_tokens - 1) / max(completion.decode_s, 1e-9)


def stream_delay_s(arrivals_s: Sequence[float], token_s: float) -> float:
    """Seconds of pauses after which many pieces come at once, as a proxy in between held them back.

    Given are when each piece came, and what a token takes on average. A server that pauses goes on where it was, one
    token after the other. Steps that give several tokens at once, by drafts or by a scheduler that plans ahead, give a
    handful; a proxy collects kilobytes.
    """
    least, held_s = max(LEAST_PAUSE_S, LEAST_TOKENS * token_s), 0.0
    for number, (earlier, later) in enumerate(pairwise(arrivals_s), 1):
        if (pause_s := later - earlier) >= least:
            after = arrivals_s[number : number + FEWEST_AT_ONCE]  # or all that were left
            held_s += pause_s if len(after) > 1 and after[-1] - after[0] <= AT_ONCE * pause_s else 0.0
    return held_s


def pieces_at_once(arrivals_s: Sequence[float]) -> float:
    """How many pieces came together on average: between two steps lies a pause that all longer ones resemble."""
    pauses_s = [later - earlier for earlier, later in pairwise(arrivals_s)]
    if len(pauses_s) < FEWEST_PAUSES:
        return 0.0
    step_s = statistics.quantiles(pauses_s, n=10)[-1]  # also where nine of ten tokens come with the one before
    return len(arrivals_s) / (1 + sum(pause_s >= SAME_STEP * step_s for pause_s in pauses_s))


class WatchedAnswer(NamedTuple):
    """A completion and what the processors did meanwhile."""

    timed: TimedCompletion
    use: CpuUse | LookError
    start_s: float | None  # By the sampler's clock; None where it was not read
    whole: bool = True  # Whether all of it came before the time was up


@contextmanager
def watching(system: System, target: Target) -> Iterator[Sampler]:
    """A sampler around a measurement; it does not run where the server is on another machine."""
    sampler = Sampler(system, [target.pid] if target.pid is not None else [])
    if is_here(target):
        sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()


def is_here(target: Target) -> bool:
    """Whether the server runs on this machine, so that what this machine does has to do with it."""
    return target.pid is not None or is_local_url(target.url)


def note_completion(sampler: Sampler, completion: Completion, start_s: float) -> None:
    """Tell the sampler when the prompt was read and when tokens came, by the client's clock."""
    first, total = completion.client_first_token_s, completion.client_total_s
    if first is None or total is None:
        return
    prompt_s = min(completion.prefill_s, first)
    sampler.note(Span(phase="queue", start_s=start_s, end_s=start_s + first - prompt_s))
    sampler.note(Span(phase="prefill", start_s=start_s + first - prompt_s, end_s=start_s + first))
    sampler.note(Span(phase="decode", start_s=start_s + first, end_s=start_s + total))


def with_telemetry(system: System, run: Run, sampler: Sampler, question: str = QUESTION) -> Run:
    """The run with what was seen meanwhile; in a recording that holds none, the run as it is."""

    def ask() -> Any:
        telemetry = sampler.telemetry()
        if not telemetry.samples:
            raise LookError("the machine was not sampled", Absence.NOT_LOOKED, "measure on the machine of the server")
        return msgspec.to_builtins(telemetry)

    def read() -> Fact[Telemetry]:
        return measured_fact(
            convert_answer(system.ask(question, ask), Telemetry, "the recorded telemetry is not valid"), UNDER_LOAD
        )

    return join_telemetry(run, try_fact(read))


def join_telemetry(run: Run, telemetry: Fact[Telemetry]) -> Run:
    """The run with a summary, and with what causes want to know of it."""
    run = msgspec.structs.replace(run, telemetry=telemetry)
    if not isinstance(telemetry, Known):
        return run
    gpus = under_load(telemetry.value)
    return msgspec.structs.replace(
        run,
        gpus=measured_fact(gpus, UNDER_LOAD) if gpus else run.gpus,
        cpu_throttled_fraction=throttled_fraction(telemetry.value),
        own_cpus=_processors(run.own_cpus, telemetry.value, "own_cpus"),
        others_cpus=_processors(run.others_cpus, telemetry.value, "others_cpus"),
    )


def _processors(known: Fact[float], telemetry: Telemetry, figure: str) -> Fact[float]:
    """What was counted around each answer; of one that was cut off, what the sampler saw meanwhile."""
    decode = decode_phase(telemetry)
    seen = decode.host.get(figure) if decode and isinstance(known, Unknown) else None
    return measured_fact(max(0.0, seen.mean), UNDER_LOAD) if seen else known


def use_between(
    system: System, target: Target, before: CpuSample | LookError, after: CpuSample | LookError
) -> CpuUse | LookError:
    """Who used the processors between two samples, the server and this program apart from the others."""
    if isinstance(before, LookError):
        return before
    if isinstance(after, LookError):
        return after
    own = [p for p in (target.pid, try_look(None, read_own_pid, system)) if p is not None]
    return cpus_between(before, after, own)


def sample_here(system: System, target: Target) -> CpuSample | LookError:
    """The processors of the server's machine; those of another say nothing of it."""
    if not is_here(target):
        return LookError("the server runs on another machine", Absence.NOT_SUPPORTED, "run unslow there")
    try:
        return read_cpu_sample(system)
    except LookError as error:
        return error


def run_delay(system: System, pid: int | None, sample: CpuSample | LookError | None = None) -> float | None:
    """Seconds that its threads have waited for a processor so far, where that can be read.

    With a sample of the processors, those of all processes that it started too: the engine of a server may be one.
    """
    if pid is None:
        return None
    family = process_family(sample, (pid,)) if isinstance(sample, CpuSample) else (pid,)
    waits = [try_look(None, read_run_delay, system, each) for each in sorted(family)[:_MOST_PROCESSES]]
    known = [wait for wait in waits if wait is not None]
    return sum(known) if known else None


def processors(uses: Sequence[CpuUse | LookError], when: str = "while generating") -> dict[str, Any]:
    """The facts on who used the processors: of the one in the middle, by how busy they were."""
    known = [u for u in uses if not isinstance(u, LookError)]
    if not known:
        error = next((u for u in uses if isinstance(u, LookError)), LookError("not measured"))
        return dict.fromkeys(("own_cpus", "others_cpus", "busiest_others"), unknown(error))
    source = f"/proc/stat and /proc/PID/stat {when}"
    middle = sorted(known, key=lambda u: u.busy_cpus)[len(known) // 2]
    return {
        "own_cpus": measured_fact(middle.excluded_cpus, source),
        "others_cpus": measured_fact(middle.busy_cpus, source),
        "busiest_others": measured_fact(middle.busiest, source),
    }


def watch_answer(
    system: System, target: Target, plan: Plan, wanted: tuple[str, int], sampler: Sampler
) -> WatchedAnswer:
    """The response to a prompt, of `tokens` tokens, with a look at the processors before and after it."""
    before = sample_here(system, target)
    waited_before = run_delay(system, target.pid, before)
    start_s = sampler.clock()
    timed, whole = complete_as_far_as_possible(system, target, plan, wanted)
    after, waited_after = sample_here(system, target), run_delay(system, target.pid, before)
    if waited_before is not None and waited_after is not None:
        waited = max(0.0, waited_after - waited_before)
        timed = timed._replace(completion=msgspec.structs.replace(timed.completion, waited_s=waited))
    return WatchedAnswer(timed, use_between(system, target, before, after), start_s, whole)


def complete_warm_up(system: System, target: Target, plan: Plan, prompt: str) -> WatchedAnswer:
    """A first, short answer; only the sampler looks on, because it counts for nothing where there is time for more."""
    timed, whole = complete_as_far_as_possible(system, target, plan, (prompt, WARM_UP_TOKENS))
    return WatchedAnswer(timed, LookError("not measured"), None, whole)


def note_answer(sampler: Sampler, seen: WatchedAnswer) -> None:
    """Tell the sampler when it was; a warm-up that has to do ended just now."""
    completion, start_s = seen.timed.completion, seen.start_s
    just_now = sampler.clock() - (completion.client_total_s or 0.0)
    note_completion(sampler, completion, just_now if start_s is None else start_s)

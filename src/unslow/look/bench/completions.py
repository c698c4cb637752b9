"""The first measurement: a warm-up, then three completions, the median counts.

Prompts and protocol are those that the guides to slow inference share: a question that asks for a long answer, up to
512 tokens, three times. Every prompt is unique from its first word on, so that no prompt cache can answer it. Server
and client timings are kept apart.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from unslow.facts.run import Completion, Run
from unslow.facts.values import Fact, Unknown, failed, measured, not_found, not_supported
from unslow.look.bench.asking import ask
from unslow.look.bench.guest import Plan, Question, Reply, Target, Timed
from unslow.look.bench.prompts import PROMPTS
from unslow.look.bench.watching import note_completion, watching, with_telemetry
from unslow.look.kernel.cpu_time import CpuSample, CpuUse, cpus_between, read_cpu_sample, read_own_pid, read_run_delay
from unslow.look.sampler import Sampler
from unslow.look.system import LookError, System, unknown
from unslow.look.system.door import SILENCE_S, STREAM_TIMEOUT_S

OPENINGS = ("Warming", "First", "Second", "Third")
WARM_UP_TOKENS = 16
FEWEST_TOKENS, MOST_TOKENS = 24, 512
COMPLETIONS = 3


NOT_WATCHED = not_supported("the GPU is not watched while it is measured", "run `nvidia-smi dmon -s pucm` meanwhile")

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done."""


class _Watched(NamedTuple):
    """A completion and what the processors did meanwhile."""

    timed: Timed
    use: CpuUse | LookError


def measure(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """Measure, and watch meanwhile; what was measured before a server fails is kept, with the reason for the rest."""
    with watching(system, target) as sampler:
        run = _measured(system, target, plan, progress, sampler)
    return with_telemetry(system, run, sampler)


def _measured(system: System, target: Target, plan: Plan, progress: Progress, sampler: Sampler) -> Run:
    stamp, done = system.now(), []
    try:
        progress("warming up", 0.0)
        warm = complete(system, target, plan, _prompt(stamp, 0), WARM_UP_TOKENS)
        tokens = _tokens_for(warm.completion, plan.seconds_per_completion)
        for number in range(1, COMPLETIONS + 1):
            progress(f"measuring, {number} of {COMPLETIONS}: {tokens} tokens", number / (COMPLETIONS + 1))
            done.append(_watched(system, target, plan, (_prompt(stamp, number), tokens), sampler))
    except LookError as error:
        if not done:
            why = failed(error.why, error.how_to_get)
            return Run(completions=why, decode_tokens_per_s=why)
    progress("measured", 1.0)
    return summarise(done, target.url)


def _prompt(stamp: str, number: int) -> str:
    return f"{OPENINGS[number % len(OPENINGS)]} request of {stamp}. {PROMPTS[number % len(PROMPTS)]}"


def _tokens_for(warm: Completion, seconds: float) -> int:
    """As many tokens as fit into the time, within the protocol's bounds."""
    rate = warm.generated_tokens / max(warm.decode_s, 1e-6)
    return max(FEWEST_TOKENS, min(MOST_TOKENS, int(rate * seconds)))


def _watched(system: System, target: Target, plan: Plan, wanted: tuple[str, int], sampler: Sampler) -> _Watched:
    before, waited_before = _sample(system), _run_delay(system, target.pid)
    start_s = sampler.clock()
    timed = complete(system, target, plan, *wanted)
    after, waited_after = _sample(system), _run_delay(system, target.pid)
    note_completion(sampler, timed.completion, start_s)
    if waited_before is not None and waited_after is not None:
        waited = max(0.0, waited_after - waited_before)
        timed = timed._replace(completion=msgspec.structs.replace(timed.completion, waited_s=waited))
    if isinstance(before, LookError) or isinstance(after, LookError):
        return _Watched(timed, LookError("/proc can't be read"))
    own = [p for p in (target.pid, _own_pid(system)) if p is not None]
    return _Watched(timed, cpus_between(before, after, own))


def _sample(system: System) -> CpuSample | LookError:
    try:
        return read_cpu_sample(system)
    except LookError as error:
        return error


def _own_pid(system: System) -> int | None:
    try:
        return read_own_pid(system)
    except LookError:
        return None


def _run_delay(system: System, pid: int | None) -> float | None:
    try:
        return read_run_delay(system, pid) if pid is not None else None
    except LookError:
        return None


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Timed:
    """One request for that many tokens, in the words of the server's runtime; LookError where none can be timed."""
    reply = ask(system, target, Question(prompt, tokens, plan.slot, silence_s=SILENCE_S, deadline_s=STREAM_TIMEOUT_S))
    return Timed(completion_of(reply), reply.clock, prompt_timed=reply.server_prefill_s is not None)


def completion_of(reply: Reply) -> Completion:
    """The reply by the server's clock, else by the client's; LookError where it came in one piece."""
    first_s, last_s = (reply.arrivals_s[0], reply.arrivals_s[-1]) if reply.arrivals_s else (reply.total_s,) * 2
    decode_s = reply.server_decode_s if reply.server_decode_s is not None else last_s - first_s
    if decode_s <= 0 or (reply.server_decode_s is None and reply.generated_tokens < 2):  # noqa: PLR2004 (a step has two ends)
        raise LookError("the answer came in one piece, so its speed can't be told", how_to_get="is a proxy in between?")
    return Completion(
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        generated_tokens=reply.generated_tokens,
        prefill_s=reply.server_prefill_s if reply.server_prefill_s is not None else first_s,
        decode_s=decode_s,
        client_first_token_s=first_s,
        client_total_s=reply.total_s,
    )


def decode_rate(completion: Completion) -> float:
    """Tokens per second by the server's clock: the first token belongs to the prompt, so n tokens took n - 1 steps."""
    return max(1, completion.generated_tokens - 1) / max(completion.decode_s, 1e-9)


def summarise(done: Sequence[_Watched], url: str) -> Run:
    """Medians over the completions, and what the processors did in all of them."""
    runs = [w.timed.completion for w in done]
    source, clock = f"median of {len(runs)} completions at {url}", done[-1].timed.clock
    clients = [_client_rate(c) for c in runs]
    firsts = [c.client_first_token_s for c in runs if c.client_first_token_s is not None]
    return Run(
        completions=measured(tuple(runs), url),
        decode_tokens_per_s=measured(statistics.median(decode_rate(c) for c in runs), f"{source}, {clock}"),
        prefill_tokens_per_s=_prefill([w.timed for w in done], f"{source}, {clock}"),
        time_to_first_token_s=_median(firsts, f"{source}, client clock"),
        client_decode_tokens_per_s=_median([c for c in clients if c], f"{source}, client clock"),
        depth_tokens=measured(int(statistics.median(c.prompt_tokens + c.generated_tokens / 2 for c in runs)), url),
        waiting_for_cpu_s_per_token=_waiting(runs),
        gpus=NOT_WATCHED,
        **_processors([w.use for w in done]),
    )


def _prefill(done: Sequence[Timed], source: str) -> Fact[float]:
    if not all(timed.prompt_timed for timed in done):
        return not_found("the server does not time its prompts, and these are too short for the client's clock")
    runs = [timed.completion for timed in done]
    return _median([c.prompt_tokens / c.prefill_s for c in runs if c.prefill_s > 0], source)


def _median(values: Sequence[float], source: str) -> Fact[float]:
    return measured(statistics.median(values), source) if values else not_found("no timing of this kind came back")


def _client_rate(completion: Completion) -> float | None:
    if completion.client_total_s is None or completion.client_first_token_s is None:
        return None
    seconds = completion.client_total_s - completion.client_first_token_s
    return (completion.generated_tokens - 1) / seconds if seconds > 0 and completion.generated_tokens > 1 else None


def _waiting(runs: Sequence[Completion]) -> Fact[float]:
    waits = [c.waited_s / c.generated_tokens for c in runs if c.waited_s is not None]
    if not waits:
        return Unknown("the run-queue times of the runtime's threads can't be read", "run unslow as the same user")
    return measured(statistics.median(waits), "/proc/PID/task/*/schedstat while generating")


def _processors(uses: Sequence[CpuUse | LookError]) -> dict[str, Any]:
    known = [u for u in uses if not isinstance(u, LookError)]
    if not known:
        error = next((u for u in uses if isinstance(u, LookError)), LookError("nobody looked"))
        return {"own_cpus": unknown(error), "others_cpus": unknown(error), "busiest_others": unknown(error)}
    source = "/proc/stat and /proc/PID/stat while generating"
    middle = sorted(known, key=lambda u: u.busy_cpus)[len(known) // 2]
    return {
        "own_cpus": measured(middle.excluded_cpus, source),
        "others_cpus": measured(middle.busy_cpus, source),
        "busiest_others": measured(middle.busiest, source),
    }

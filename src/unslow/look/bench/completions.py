"""The first measurement: a warm-up, then three completions on a llama.cpp server, the median counts.

Prompts and protocol are those that the guides to slow inference share: a question that asks for a long answer, up to
512 tokens, three times. Every prompt is unique, so that no prompt cache can answer it. Server and client timings are
kept apart.
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from unslow.facts.run import Completion, Run
from unslow.facts.values import Amount, Count, Fact, Unknown, failed, measured, not_found, not_supported
from unslow.look.kernel.cpu_time import CpuSample, CpuUse, cpus_between, read_cpu_sample, read_own_pid, read_run_delay
from unslow.look.system import LookError, System, unknown

PROMPTS = (
    "Explain the transformer architecture in detail.",
    "Explain what limits heat pumps below freezing, including refrigerants and compressors. Be thorough.",
)
WARM_UP_TOKENS = 16
FEWEST_TOKENS, MOST_TOKENS = 24, 512
COMPLETIONS = 3


NOT_WATCHED = not_supported("the GPU is not watched while it is measured", "run `nvidia-smi dmon -s pucm` meanwhile")


class Plan(NamedTuple):
    """How long to measure, and on which slot of the server."""

    seconds_per_completion: float = 6.0
    slot: int | None = None


class Target(NamedTuple):
    """A server to measure: its process is known where it runs on this machine."""

    url: str
    headers: dict[str, str]
    pid: int | None = None


Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done."""


class _Watched(NamedTuple):
    """A completion and what the processors did meanwhile."""

    completion: Completion
    use: CpuUse | LookError


def measure(system: System, target: Target, plan: Plan, progress: Progress) -> Run:
    """Measure; whatever was measured before a server fails is kept, with the reason for the rest."""
    stamp, done = system.now(), []
    try:
        progress("warming up", 0.0)
        warm = complete(system, target, plan, _prompt(stamp, 0), WARM_UP_TOKENS)
        tokens = _tokens_for(warm, plan.seconds_per_completion)
        for number in range(1, COMPLETIONS + 1):
            progress(f"measuring, {number} of {COMPLETIONS}: {tokens} tokens", number / (COMPLETIONS + 1))
            done.append(_watched(system, target, plan, _prompt(stamp, number), tokens))
    except LookError as error:
        if not done:
            why = failed(error.why, error.how_to_get)
            return Run(completions=why, decode_tokens_per_s=why)
    progress("measured", 1.0)
    return summarise(done, target.url)


def _prompt(stamp: str, number: int) -> str:
    return f"Request {number} of {stamp}. {PROMPTS[number % len(PROMPTS)]}"


def _tokens_for(warm: Completion, seconds: float) -> int:
    """As many tokens as fit into the time, within the protocol's bounds."""
    rate = warm.generated_tokens / max(warm.decode_s, 1e-6)
    return max(FEWEST_TOKENS, min(MOST_TOKENS, int(rate * seconds)))


def _watched(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> _Watched:
    before, waited_before = _sample(system), _run_delay(system, target.pid)
    completion = complete(system, target, plan, prompt, tokens)
    after, waited_after = _sample(system), _run_delay(system, target.pid)
    if waited_before is not None and waited_after is not None:
        waited = max(0.0, waited_after - waited_before)
        completion = msgspec.structs.replace(completion, waited_s=waited)
    if isinstance(before, LookError) or isinstance(after, LookError):
        return _Watched(completion, LookError("/proc can't be read"))
    own = [p for p in (target.pid, _own_pid(system)) if p is not None]
    return _Watched(completion, cpus_between(before, after, own))


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


def complete(system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Completion:
    """One request for that many tokens, timed by the server and by this clock."""
    body: dict[str, Any] = {
        "prompt": prompt,
        "n_predict": tokens,
        "stream": True,
        "ignore_eos": True,
        "cache_prompt": False,
    }
    if plan.slot is not None:
        body["id_slot"] = plan.slot
    first = last = 0.0
    timings: Any = None
    for line in system.stream(f"{target.url}/completion", body, target.headers):
        if not line.text.startswith("data: "):
            continue
        event = _event(line.text[6:])
        first, last = first or line.seconds, line.seconds
        timings = event.get("timings", timings)
    return parse_timings(timings, first, last)


def _event(text: str) -> dict[str, Any]:
    try:
        event = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise LookError(f"the server streamed something that is not JSON: {text[:60]!r}") from error
    if not isinstance(event, dict):
        raise LookError(f"the server streamed something that is no event: {text[:60]!r}")
    if "error" in event:
        raise LookError(f"the server answered with an error: {str(event['error'])[:200]}")
    return event


class _Timings(msgspec.Struct):
    """The `timings` object of llama-server."""

    prompt_n: Count
    prompt_ms: Amount
    predicted_n: Count
    predicted_ms: Amount
    cache_n: Count = 0


def parse_timings(timings: Any, first_s: float, total_s: float) -> Completion:
    """A completion from the server's last event; llama-server times the n tokens of an answer over n - 1 steps."""
    try:
        server = msgspec.convert(timings, _Timings)
    except msgspec.ValidationError as error:
        raise LookError("the answer ended without the server's timings: did it break off?") from error
    if server.predicted_n < 1 or not server.predicted_ms:
        raise LookError("the server generated nothing")
    return Completion(
        prompt_tokens=max(0, server.prompt_n),
        cached_tokens=max(0, server.cache_n),
        generated_tokens=server.predicted_n,
        prefill_s=server.prompt_ms / 1e3,
        decode_s=server.predicted_ms / 1e3,
        client_first_token_s=first_s,
        client_total_s=total_s,
    )


def decode_rate(completion: Completion) -> float:
    """Tokens per second by the server's clock: the first token belongs to the prompt, so n tokens took n - 1 steps."""
    return max(1, completion.generated_tokens - 1) / max(completion.decode_s, 1e-9)


def summarise(done: Sequence[_Watched], url: str) -> Run:
    """Medians over the completions, and what the processors did in all of them."""
    runs = [w.completion for w in done]
    source = f"median of {len(runs)} completions at {url}"
    clients = [_client_rate(c) for c in runs]
    firsts = [c.client_first_token_s for c in runs if c.client_first_token_s is not None]
    prefills = [c.prompt_tokens / c.prefill_s for c in runs if c.prefill_s > 0]
    return Run(
        completions=measured(tuple(runs), url),
        decode_tokens_per_s=measured(statistics.median(decode_rate(c) for c in runs), f"{source}, server timings"),
        prefill_tokens_per_s=_median(prefills, f"{source}, server timings"),
        time_to_first_token_s=_median(firsts, f"{source}, client clock"),
        client_decode_tokens_per_s=_median([c for c in clients if c], f"{source}, client clock"),
        depth_tokens=measured(int(statistics.median(c.prompt_tokens + c.generated_tokens / 2 for c in runs)), url),
        waiting_for_cpu_s_per_token=_waiting(runs),
        gpus=NOT_WATCHED,
        **_processors([w.use for w in done]),
    )


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

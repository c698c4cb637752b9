"""What a server shows of the work that it does for others: at one moment, and as a speed between two moments."""

import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from unslow.facts.values import NOT_LOOKED, Absence, Fact, Known, measured_fact, not_found
from unslow.look.openai_api import Server
from unslow.look.processes import Process
from unslow.look.requests import Target
from unslow.look.runtimes import mlx_lm
from unslow.look.runtimes.vllm import cache_facts
from unslow.look.server_answers import Metrics, objects_at, parse_metrics, value_at, word_at
from unslow.look.system import LookError, System, read_text

_PORT = re.compile("[0-9]{1,5}")
_MOST = 2**31


class Decoding(NamedTuple):
    """A slot that generates: which task, and how many tokens so far."""

    task: int
    tokens: int


class RequestedSampling(NamedTuple):
    """What a request in work wants of its sampling, as far as it is told."""

    top_k: int | None = None
    grammar: str | None = None
    logprobs: int | None = None


class TaskPrompt(NamedTuple):
    """The prompt of a request in work."""

    slot: int
    task: int
    tokens: int
    cached_tokens: int
    computed_tokens: int | None = None  # Of those that it had not, so far; None where the server does not tell


class Work(NamedTuple):
    """One look; None where the server does not tell."""

    source: str
    running: float | None
    waiting: float | None = None
    decoding: dict[int, Decoding] | None = None  # The requests that are answered, by slot
    tokens: float | None = None  # Generated since the server started
    tokens_per_s: float | None = None
    prompt_tokens: float | None = None  # Of prompts, computed since the server started
    preemptions: float | None = None
    queued: float | None = None  # Requests that had waited for their turn by then, however shortly
    queued_s: float | None = None  # How long they had waited, all together
    cache_used: float | None = None
    held_tokens: float | None = None  # In the KV cache for the requests that are answered; shared ones count once
    ended: float | None = None  # Requests that were answered whole by then
    ended_prompt_tokens: float | None = None  # What they had asked, cached or not
    loaded: frozenset[str] | None = None  # What is loaded, each under a name that another load would change
    asked: tuple[RequestedSampling, ...] = ()
    prompts: tuple[TaskPrompt, ...] | None = None
    """Of the requests that are answered, where the server shows what it still had of them."""


def read_work(system: System, target: Target) -> Work:
    """The work of a server now; LookError where it shows none of it."""
    read = next((read for name, read in _READERS.items() if target.runtime.endswith(name)), None)
    if read is None:
        why = f"{target.runtime or 'this server'} does not show what it is doing"
        raise LookError(why, Absence.NOT_SUPPORTED, "run unslow while it is idle")
    return read(system, target)


def read_logged_prompts(system: System, target: Target) -> Fact[tuple[int, ...]]:
    """Tokens of the last prompts that were computed, where only the server's log tells of them."""
    if not target.runtime.endswith("MLX-LM") or target.pid is None:
        return NOT_LOOKED
    return mlx_lm.read_logged_requests(Process(system, target.pid, "")).prompts


def speed_of_one(before: Work, after: Work, seconds: float) -> Fact[float]:
    """The speed of the only request between two looks: by its slot, else by the server's counters."""
    source = after.source
    if before.decoding is not None and after.decoding is not None:
        return parse_speed(before.decoding, after.decoding, seconds, source)
    if before.tokens is None or after.tokens is None or before.running is None or after.running is None:
        return not_found(f"{source} does not count tokens")
    tokens = after.tokens - before.tokens
    if (before.running, after.running) != (1, 1) or tokens <= 0 or seconds <= 0:
        return _not_one(several=max(before.running, after.running) > 1)
    return _speed(tokens, seconds, source)


def parse_speed(before: dict[int, Decoding], after: dict[int, Decoding], seconds: float, source: str) -> Fact[float]:
    """The speed between two looks at slots."""
    # with no token at the first look, its prompt was still being read
    kept = {s: d.tokens for s, d in before.items() if d.tokens and s in after and after[s].task == d.task}
    moved = {s: after[s].tokens - tokens for s, tokens in kept.items()}
    moved = {slot: tokens for slot, tokens in moved.items() if tokens > 0}
    if len(moved) != 1 or len(after) > 1 or seconds <= 0:
        return _not_one(several=len(after) > 1)
    return _speed(next(iter(moved.values())), seconds, source)


def _speed(tokens: float, seconds: float, source: str) -> Fact[float]:
    return measured_fact(tokens / seconds, f"two looks at {source}, {seconds:.1f} s apart")


def _not_one(*, several: bool) -> Fact[float]:
    why = "several requests share the server" if several else "no request ran the whole time"
    return not_found(f"{why}, so the speed of one is unknown")


def _of_slots(server: Server) -> Work:
    """By its slots; how many wait is asked for only where all are taken, as each reader of /metrics resets averages."""
    try:
        answer = server.json("/slots")
    except LookError as error:
        try:  # one that hides its slots may still count
            return _of_gauges(server, "llamacpp:", "requests_processing", "requests_deferred")
        except LookError:
            raise error from None
    slots, busy = objects_at({"slots": answer}, "slots"), parse_slots(answer)
    if not slots:
        raise LookError(f"{server.url}/slots lists none")
    waiting: float | None = 0.0
    if len(busy) >= len(slots):
        try:
            metrics = parse_metrics(server.text("/metrics"), "", "llamacpp:")
            waiting = metrics.total("llamacpp:requests_deferred").value_or(None)
        except LookError:
            waiting = None
    working = [slot for slot in slots if isinstance(slot.get("id"), int) and slot["id"] in busy]
    asked = tuple(parse_asked(slot.get("params")) for slot in working)
    prompts = parse_prompts(working)
    return Work(f"{server.url}/slots", len(busy), waiting, decoding=busy, asked=asked, prompts=prompts)


def parse_slots(slots: Any) -> dict[int, Decoding]:
    """The slots that are generating now."""
    listed = [s for s in slots if isinstance(s, dict)] if isinstance(slots, list) else []
    busy = [s for s in listed if s.get("is_processing") is True and isinstance(s.get("id"), int)]
    return {s["id"]: Decoding(s.get("id_task", -1), decoded_tokens(s)) for s in busy}


def parse_prompts(slots: Iterable[dict[str, Any]]) -> tuple[TaskPrompt, ...]:
    """The prompts of slots at work; llama-server counts the tokens that it generates among them."""
    found = []
    for slot in slots:
        names = ("id", "id_task", "n_prompt_tokens", "n_prompt_tokens_cache")
        counts = [count for name in names if type(count := slot.get(name)) is int and 0 <= count < _MOST]
        if len(counts) == len(names):
            number, task, tokens, cached = counts
            done = slot.get("n_prompt_tokens_processed")
            computed = done if type(done) is int and 0 <= done < _MOST else None
            found.append(TaskPrompt(number, task, max(cached, tokens - decoded_tokens(slot)), cached, computed))
    return tuple(found)


def decoded_tokens(slot: dict[str, Any]) -> int:
    """The count of generated tokens: in a list of one in newer builds, in the object itself in older ones."""
    next_token = slot.get("next_token")
    first = next_token[0] if isinstance(next_token, list) and next_token else next_token
    count = first.get("n_decoded") if isinstance(first, dict) else None
    return count if isinstance(count, int) else 0


def parse_asked(params: Any) -> RequestedSampling:
    """What the parameters of a request say; a grammar is told only by a server that is being debugged."""
    top_k, grammar, logprobs = (value_at(params, name) for name in ("top_k", "grammar", "n_probs"))
    return RequestedSampling(
        top_k if type(top_k) is int and abs(top_k) < 2**31 else None,
        grammar[:200] if isinstance(grammar, str) else None,
        logprobs if type(logprobs) is int and 0 <= logprobs < 2**31 else None,
    )


def _of_gauges(server: Server, prefix: str, running: str, waiting: str) -> Work:
    metrics = _metrics(server, prefix)
    answered, waits = (metrics.total(f"{prefix}{name}").value_or(None) for name in (running, waiting))
    return Work(metrics.source, answered, waits)


def _vllm(system: System, target: Target) -> Work:
    metrics = _metrics(target.server(system), "vllm:")
    # Tokens of prompts less those that were still in the cache of prefixes
    read = metrics.total("vllm:prompt_tokens_total", "vllm:prompt_tokens").value_or(None)
    kept = metrics.total("vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits").value_or(None) or 0.0
    usage = "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"
    capacity = cache_facts(metrics.labels("vllm:cache_config_info"), metrics.source).get("kv_capacity_tokens")
    return Work(
        metrics.source,
        metrics.total("vllm:num_requests_running").value_or(None),
        metrics.total("vllm:num_requests_waiting").value_or(None),
        tokens=metrics.total("vllm:generation_tokens_total", "vllm:generation_tokens").value_or(None),
        prompt_tokens=max(0.0, read - kept) if read is not None else None,
        preemptions=metrics.total("vllm:num_preemptions_total", "vllm:num_preemptions").value_or(None),
        queued=metrics.total("vllm:request_queue_time_seconds_count").value_or(None),
        queued_s=metrics.total("vllm:request_queue_time_seconds_sum").value_or(None),
        cache_used=metrics.largest_share(*usage).value_or(None),
        held_tokens=math.fsum(metrics.values(*usage)) * capacity.value if isinstance(capacity, Known) else None,
        ended=metrics.total("vllm:request_prompt_tokens_count").value_or(None),
        ended_prompt_tokens=metrics.total("vllm:request_prompt_tokens_sum").value_or(None),
    )


def _sglang(system: System, target: Target) -> Work:
    """Every rank counts the same requests, so one of several is enough."""
    metrics = _metrics(target.server(system), "sglang:")
    one = Metrics(tuple({s.name: s for s in reversed(metrics.samples)}.values()), metrics.source)
    return Work(
        metrics.source,
        one.total("sglang:num_running_reqs").value_or(None),
        one.total("sglang:num_queue_reqs").value_or(None),
        tokens_per_s=one.total("sglang:gen_throughput").value_or(None),
        preemptions=one.total("sglang:num_retracted_requests_total").value_or(None),
        cache_used=one.largest_share("sglang:token_usage").value_or(None),
    )


def _koboldcpp(system: System, target: Target) -> Work:
    """It answers one at a time; those that wait for it are its queue."""
    server = target.server(system)
    answer = server.json("/api/extra/perf")
    idle, queue = value_at(answer, "idle"), value_at(answer, "queue")
    if idle not in (0, 1):
        raise LookError(f"{server.url}/api/extra/perf does not say whether it is idle")
    waiting = queue if type(queue) is int and 0 <= queue < 2**31 else None
    return Work(f"{server.url}/api/extra/perf", float(idle == 0), waiting)


def _ollama(system: System, target: Target) -> Work:
    """What is loaded; what it works on only its llama-server tells, which it has since 0.30."""
    server = target.server(system)
    models = objects_at(server.json("/api/ps"), "models")
    loaded = frozenset(f"{word_at(m, 'digest')[:64]} {value_at(m, 'context_length')}"[:100] for m in models)
    words = [""]
    if target.pid is not None:
        with suppress(LookError):
            words = read_text(system, f"/proc/{target.pid}/cmdline").split("\0")
    port = next((value for name, value in pairwise(words) if name == "--port" and _PORT.fullmatch(value)), "")
    work = Work(f"{server.url}/api/ps", None)
    if port and words[0].endswith(("llama-server", "llama-server.exe")):  # it wants no key
        work = _of_slots(Server(system, f"http://127.0.0.1:{port}"))
    return work._replace(loaded=loaded)


def _mlx_lm(system: System, target: Target) -> Work:
    if target.pid is None:
        raise LookError("its process is not known", Absence.NOT_SUPPORTED, "run unslow on its machine")
    running, waiting, source = mlx_lm.read_requests(Process(system, target.pid, ""), target.url)
    return Work(source, running, waiting)


def _metrics(server: Server, prefix: str) -> Metrics:
    source = f"{server.url}/metrics"
    metrics = parse_metrics(server.text("/metrics"), source, prefix)
    if not metrics.samples:
        raise LookError(f"{source} counts nothing of {prefix}")
    return metrics


_READERS: dict[str, Callable[[System, Target], Work]] = {
    "llama.cpp": lambda system, target: _of_slots(target.server(system)),
    "vLLM": _vllm,
    "SGLang": _sglang,
    "TGI": lambda system, target: _of_gauges(target.server(system), "tgi_", "batch_current_size", "queue_size"),
    "KoboldCpp": _koboldcpp,
    "Ollama": _ollama,
    "MLX-LM": _mlx_lm,
}
"""By how the name of the runtime ends."""

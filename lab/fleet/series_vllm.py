"""The series of a vLLM, by the names and labels that were recorded of a real one, with counters that grow together."""

import json
from collections.abc import Callable, Mapping
from functools import cache

from lab.fleet.engine import Engine
from lab.fleet.lines import Line
from lab.replay.answers import FOLDER

from unslow.look.server_answers import parse_metrics

_RECORDED_MODEL = "tiny-llama"
_BLOCK = 16
"""Tokens of a block of the cache on GPUs."""
_GAUGES: Mapping[str, Callable[[Engine], float]] = {
    "vllm:num_requests_running": lambda e: e.running,
    "vllm:num_requests_waiting": lambda e: e.waiting,
    "vllm:num_requests_waiting_by_reason{capacity}": lambda e: e.waiting,
    "vllm:kv_cache_usage_perc": lambda e: e.usage,
}
_SWINGING = {"vllm:num_requests_running": 0.12, "vllm:num_requests_waiting": 0.1, "vllm:kv_cache_usage_perc": 0.0}
_COUNTERS: Mapping[str, Callable[[Engine], float]] = {
    "vllm:prefix_cache_queries_total": lambda e: e.requests_per_s * e.prompt_tokens,
    "vllm:prefix_cache_hits_total": lambda e: e.requests_per_s * e.prompt_tokens * e.hits,
    "vllm:num_preemptions_total": lambda e: e.preemptions_per_s,
    "vllm:prompt_tokens_total": lambda e: e.requests_per_s * e.prompt_tokens,
    "vllm:prompt_tokens_by_source_total{local_compute}": lambda e: e.requests_per_s * e.prompt_tokens * (1 - e.hits),
    "vllm:prompt_tokens_by_source_total{local_cache_hit}": lambda e: e.requests_per_s * e.prompt_tokens * e.hits,
    "vllm:prompt_tokens_cached_total": lambda e: e.requests_per_s * e.prompt_tokens * e.hits,
    "vllm:prompt_tokens_cached_by_source_total{device}": lambda e: e.requests_per_s * e.prompt_tokens * e.hits,
    "vllm:generation_tokens_total": lambda e: e.tokens_per_s,
    "vllm:request_success_total{stop}": lambda e: e.requests_per_s * 0.9,
    "vllm:request_success_total{length}": lambda e: e.requests_per_s * 0.1,
}
_MEANS: Mapping[str, tuple[Callable[[Engine], float], Callable[[Engine], float]]] = {
    "vllm:request_prompt_tokens": (lambda e: e.prompt_tokens, lambda e: e.requests_per_s),
    "vllm:request_generation_tokens": (lambda e: e.answer_tokens, lambda e: e.requests_per_s),
    "vllm:request_max_num_generation_tokens": (lambda e: e.answer_tokens, lambda e: e.requests_per_s),
    "vllm:request_params_max_tokens": (lambda e: 4 * e.answer_tokens, lambda e: e.requests_per_s),
    "vllm:request_params_n": (lambda _: 1.0, lambda e: e.requests_per_s),
    "vllm:iteration_tokens_total": (lambda e: e.running, lambda e: min(1.0, e.running) / e.gap_s),
    "vllm:time_to_first_token_seconds": (lambda e: e.queue_s + e.prefill_s, lambda e: e.requests_per_s),
    "vllm:inter_token_latency_seconds": (lambda e: e.gap_s, lambda e: e.requests_per_s * (e.answer_tokens - 1)),
    "vllm:request_time_per_output_token_seconds": (lambda e: e.gap_s, lambda e: e.requests_per_s),
    "vllm:e2e_request_latency_seconds": (lambda e: e.queue_s + e.prefill_s + e.decode_s, lambda e: e.requests_per_s),
    "vllm:request_queue_time_seconds": (lambda e: e.queue_s, lambda e: e.requests_per_s),
    "vllm:request_inference_time_seconds": (lambda e: e.prefill_s + e.decode_s, lambda e: e.requests_per_s),
    "vllm:request_prefill_time_seconds": (lambda e: e.prefill_s, lambda e: e.requests_per_s),
    "vllm:request_decode_time_seconds": (lambda e: e.decode_s, lambda e: e.requests_per_s),
    "vllm:request_num_preemptions": (
        lambda e: e.preemptions_per_s / (e.requests_per_s or 1.0),
        lambda e: e.requests_per_s,
    ),
    "vllm:request_prefill_kv_computed_tokens": (lambda e: e.prompt_tokens * (1 - e.hits), lambda e: e.requests_per_s),
}
_SORTS = ("source", "finished_reason", "reason")
"""Labels that split a metric."""


def vllm_lines(engine: Engine) -> list[Line]:
    """Every series that was recorded, as this engine would have it."""
    return [_line(engine, name, labels, value) for name, labels, value in _recorded()]


def telling(lines: list[Line]) -> list[Line]:
    """Without those that are nought in any server that does not use what they count: a large fleet takes less room."""
    kept = (
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_preemptions_total",
        "vllm:engine_sleep_state",
    )
    unread = ("vllm:request_params", "vllm:request_max_num", "vllm:iteration_tokens", "vllm:request_prefill_kv")
    told = [line for line in lines if line.level or line.per_s or line.name in kept]
    return [_shorter(line) for line in told if not line.name.startswith(unread)]


def _shorter(line: Line) -> Line:
    return line._replace(labels={name: value for name, value in line.labels.items() if value != "None"})


@cache
def _recorded() -> tuple[tuple[str, dict[str, str], float], ...]:
    text = json.loads((FOLDER / "vllm_busy" / "metrics.json").read_text(encoding="utf-8"))["text"]
    return tuple((one.name, one.labels, one.value) for one in parse_metrics(text, "vllm_busy").samples)


def _line(engine: Engine, name: str, labels: Mapping[str, str], value: float) -> Line:
    named = {k: engine.model if v == _RECORDED_MODEL else v for k, v in labels.items()}
    sort = next((f"{{{labels[key]}}}" for key in _SORTS if key in labels), "")
    if level := _GAUGES.get(name + sort):
        return Line(name, named, level(engine), 0.0, _SWINGING.get(name, 0.0))
    if (rate := _rate(engine, name, sort)) is not None:
        return Line(name, named, rate * engine.age_s, rate, kind="counter")
    if name == "vllm:cache_config_info":
        return Line(name, {**named, **_cache_config(engine)}, 1.0)
    return Line(name, named, value if name == "vllm:engine_sleep_state" else 0.0)


def _rate(engine: Engine, name: str, sort: str) -> float | None:
    """How fast a counter grows; None where it is none that moves."""
    if of := _COUNTERS.get(name + sort):
        return of(engine)
    family, _, suffix = name.rpartition("_")
    if family not in _MEANS:
        return None
    mean, per_s = _MEANS[family]
    return per_s(engine) * (mean(engine) if suffix == "sum" else 1.0)


def _cache_config(engine: Engine) -> dict[str, str]:
    blocks = round(engine.cache_tokens / _BLOCK)
    return {
        "block_size": str(_BLOCK),
        "effective_attention_block_size": str(_BLOCK),
        "gpu_memory_utilization": f"{engine.memory_share:g}",
        "kv_cache_memory_bytes": "None",
        "kv_cache_size_tokens": str(blocks * _BLOCK),
        "kv_cache_max_concurrency": f"{blocks * _BLOCK / engine.context:.2f}",
        "num_gpu_blocks": str(blocks),
        "num_gpu_blocks_override": "None",
    }

"""What a server of vLLM answers: /version, /v1/models, /metrics, and /server_info where it offers that."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from unslow.facts.bounded import bounded
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import LARGEST_COUNT, Fact, Known, Unknown, not_found, reported
from unslow.look.json_fields import word
from unslow.look.openai_api.models import Listed, parse_models
from unslow.look.openai_api.server import Server, json_of
from unslow.look.prometheus_text import Metrics, parse_metrics
from unslow.look.runtimes.vllm.info import parse_info
from unslow.look.serving.vllm_flags import PROGRAM
from unslow.look.system import LookError, unknown

ENOUGH_TOKENS = 50  # fewer say more of first tokens than of speed
_LONGEST_VERSION = 60
_MOST_BYTES = 2**60


class Answers(NamedTuple):
    """What a server said; an answer that is not there is unknown, with the reason."""

    url: str
    version: Fact[str]
    models: list[Listed] | Unknown
    metrics: Metrics | Unknown
    info: Any


def read_answers(server: Server) -> Answers | None:
    """Ask a server everything that costs it nothing; None where it is not vLLM, LookError where nobody answers."""
    version = _version(server)
    if version is None:
        return None
    metrics, models = _metrics(server), _models(server)
    own = isinstance(metrics, Metrics) and metrics.samples
    if not own and not (isinstance(models, list) and any(model.owner == "vllm" for model in models)):
        return None
    return Answers(server.url, version, models, metrics, _info(server))


def _version(server: Server) -> Fact[str] | None:
    version = word(json_of(server.ask("/version")), "version")
    return reported(version[:_LONGEST_VERSION], f"{server.url}/version") if version else None


def _metrics(server: Server) -> Metrics | Unknown:
    try:
        return parse_metrics(server.text("/metrics"), f"{server.url}/metrics", "vllm:")
    except LookError as error:
        return unknown(error)


def _models(server: Server) -> list[Listed] | Unknown:
    try:
        models = parse_models(server.json("/v1/models"), f"{server.url}/v1/models")
    except LookError as error:
        return unknown(error)
    return not_found(f"{server.url}/v1/models lists no models") if models is None else models


def _info(server: Server) -> Any:
    """Its whole configuration, which it gives in development mode only; the first time it may take too long for us."""
    try:
        return server.json("/server_info?config_format=json")
    except LookError as error:
        return unknown(error, "start vLLM with VLLM_SERVER_DEV_MODE=1")


def subject_of(answers: Answers) -> Subject:
    """The facts of all answers together."""
    models = answers.models
    first = models[0] if isinstance(models, list) and models else None
    source = f"{answers.url}/v1/models"
    runtime = Runtime(
        name=reported(PROGRAM, f"{answers.url}/version"),
        version=answers.version,
        url=reported(answers.url, "given"),
        state=reported("loaded", source) if first else _why(models, source),
        context_length=first.context_length if first else _why(models, source),
    )
    counted = _counted(answers.metrics) if isinstance(answers.metrics, Metrics) else _uncounted(answers.metrics)
    run = _run(answers.metrics) if isinstance(answers.metrics, Metrics) else Run()
    told = parse_info(answers.info, f"{answers.url}/server_info")
    whole = overlaid(overlaid(runtime, counted), told)
    return bounded(Subject(runtime=whole, model=_model(first) if first else Model(), run=run))


def _why(models: Any, source: str) -> Unknown:
    return models if isinstance(models, Unknown) else not_found(f"{source} lists no model")


def _model(listed: Listed) -> Model:
    root = listed.root.value_or("")
    source = listed.root.source if isinstance(listed.root, Known) else ""
    return Model(name=reported(listed.name, source), path=listed.root if root.startswith("/") else Model().path)


def _uncounted(why: Unknown) -> Runtime:
    names = ("running_requests", "deferred_requests", "busy_slots", "kv_usage", "preemptions", "prefix_hit_rate")
    facts: dict[str, Any] = dict.fromkeys(names, why)
    return Runtime(**facts)


def _counted(metrics: Metrics) -> Runtime:
    """What its counters say; older versions have other names."""
    running = metrics.whole("vllm:num_requests_running")
    config = metrics.labels("vllm:cache_config_info")
    facts: dict[str, Any] = {
        "running_requests": running,
        "busy_slots": running,
        "deferred_requests": metrics.whole("vllm:num_requests_waiting"),
        "kv_usage": metrics.largest_share("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        "preemptions": metrics.whole("vllm:num_preemptions_total", "vllm:num_preemptions"),
        "prefix_hit_rate": _hits(metrics),
        "draft_acceptance": metrics.ratio(
            "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"
        ),
        "decode_tokens_per_s": _decode(metrics),
        "prefill_tokens_per_s": _prefill(metrics),
        **cache_facts(config, f"{metrics.source}: vllm:cache_config_info"),
    }
    if metrics.values("vllm:engine_sleep_state", sleep_state="awake") == [0.0]:
        facts["state"] = reported("asleep", f"{metrics.source}: vllm:engine_sleep_state")
    return Runtime(**facts)


def _hits(metrics: Metrics) -> Fact[float]:
    rate = metrics.ratio("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
    if isinstance(rate, Unknown):
        return metrics.largest_share("vllm:gpu_prefix_cache_hit_rate")
    return rate if rate.value <= 1 else not_found(f"{metrics.source} counts more hits than questions")


def _decode(metrics: Metrics) -> Fact[float]:
    """Tokens a second of one request, by the mean time between two tokens."""
    means = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
    return metrics.rate(*means, least=ENOUGH_TOKENS)


def _prefill(metrics: Metrics) -> Fact[float]:
    """Prompt tokens that were computed, by the time that requests spent on it."""
    return metrics.ratio("vllm:request_prefill_kv_computed_tokens_sum", "vllm:request_prefill_time_seconds_sum", 0)


def _run(metrics: Metrics) -> Run:
    return Run(queue_s=metrics.ratio("vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count"))


def cache_facts(config: Mapping[str, str], source: str) -> dict[str, Fact[Any]]:
    """Facts of a runtime: the labels of an information metric are the configuration of its cache."""
    if not config:
        return {}
    blocks, block = _number(config, "num_gpu_blocks"), _number(config, "block_size")
    tokens = _number(config, "kv_cache_size_tokens") or (blocks or 0) * (block or 0)
    fraction, size = config.get("gpu_memory_utilization", ""), _number(config, "kv_cache_memory_bytes")
    facts: dict[str, Fact[Any]] = {}
    if tokens and tokens < LARGEST_COUNT:
        facts["kv_capacity_tokens"] = reported(tokens, source)
    if size and size < _MOST_BYTES:
        facts["kv_bytes"] = reported(size, source)
    if fraction.replace(".", "", 1).isdecimal() and 0 < float(fraction) <= 1:
        facts["gpu_memory_fraction"] = reported(float(fraction), source)
    if told := _number(config, "num_gpu_blocks_override"):
        facts["kv_blocks_set"] = reported(told, source)
    if config.get("enable_prefix_caching") in ("True", "False"):
        facts["prompt_cache"] = reported(config["enable_prefix_caching"] == "True", source)
    if config.get("cache_dtype", "auto") != "auto":
        facts |= dict.fromkeys(("kv_type_k", "kv_type_v"), reported(config["cache_dtype"][:40], source))
    return facts


def _number(config: Mapping[str, str], name: str) -> int | None:
    text = config.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= len(str(_MOST_BYTES)) else None

"""What a server of SGLang answers: /server_info, /v1/models, and /metrics where it was told to count."""

from typing import Any

from unslow.facts.bounded import bounded
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, estimated, not_found, not_supported, reported
from unslow.look.json_fields import at
from unslow.look.openai_api.models import Listed, parse_models
from unslow.look.openai_api.server import Server
from unslow.look.prometheus_text import Metrics
from unslow.look.serving.asking import metrics_of, offered
from unslow.look.serving.json_facts import Place, count, facts_at, gibibytes, share, text, truth, untruth
from unslow.look.serving.model_folder import model_of_name
from unslow.look.serving.sglang_flags import PROGRAM

LOG = "start it with its output in a file (`… > sglang.log 2>&1`), or give a log to `unslow triage`"
_METRICS = "start SGLang with --enable-metrics"
_ENOUGH_TOKENS = 50
_PLACES = (
    Place("context_set", ("context_length",), count),
    Place("kv_capacity_tokens", ("max_total_num_tokens",), count),
    Place("tensor_parallel", ("tp_size",), count),
    Place("pipeline_parallel", ("pp_size",), count),
    Place("quantization", ("quantization",), text),
    Place("weights_type", ("dtype",), text),
    Place("kv_type_k", ("kv_cache_dtype",), text),
    Place("kv_type_v", ("kv_cache_dtype",), text),
    Place("gpu_memory_fraction", ("mem_fraction_static",), share),
    Place("max_sequences", ("max_running_requests",), count),
    Place("max_batched_tokens", ("chunked_prefill_size",), count),
    Place("prompt_cache", ("disable_radix_cache",), untruth),
    Place("eager", ("disable_cuda_graph",), truth),
    Place("attention", ("attention_backend",), text),
    Place("speculative", ("speculative_algorithm",), text),
    Place("draft_tokens", ("speculative_num_draft_tokens",), count),
    Place("cpu_offload_bytes", ("cpu_offload_gb",), gibibytes),
    Place("device_used", ("device",), text),
    Place("metrics_endpoint", ("enable_metrics",), truth),
    Place("version", ("version",), text),
)


def asked(server: Server) -> Subject | None:
    """The facts of all answers together; None where it is not SGLang, LookError where nobody answers."""
    answer = offered(server, "/server_info", "/get_server_info")
    if answer is None or (at(answer[0], "max_total_num_tokens") is None and at(answer[0], "tp_size") is None):
        return None
    info, path = answer
    source = f"{server.url}{path}"
    listed = offered(server, "/v1/models")
    models = parse_models(listed[0], f"{server.url}/v1/models") if listed else None
    facts: dict[str, Any] = {**facts_at(info, _PLACES, source), **_memory(info, source)}
    runtime = Runtime(
        name=reported(PROGRAM, source), url=reported(server.url, "given"), state=reported("loaded", source), **facts
    )
    counted = _counted(metrics_of(server, "sglang:"))
    whole = overlaid(overlaid(runtime, _context(models)), counted)
    return bounded(Subject(runtime=whole, model=_model(info, models, source)))


def _context(models: list[Listed] | None) -> Runtime:
    return Runtime(context_length=models[0].context_length) if models else Runtime()


def _model(info: Any, models: list[Listed] | None, source: str) -> Model:
    written = text(at(info, "model_path")) or ""
    name = text(at(info, "served_model_name")) or (models[0].name if models else "")
    known = Model(name=reported(name, source)) if name else Model()
    return overlaid(model_of_name(written, source), known)


def _memory(info: Any, source: str) -> dict[str, Any]:
    """What one scheduler says that it holds, in GiB."""
    states = at(info, "internal_states")
    usage = at(states[0], "memory_usage") if isinstance(states, list) and states else None
    sizes = (("model", gibibytes(at(usage, "weight"))), ("kv", gibibytes(at(usage, "kvcache"))))
    buffers = [Buffer(device="GPU0", kind=kind, bytes=size, on_gpu=True) for kind, size in sizes if size]  # type: ignore[arg-type]
    if not buffers:
        return {"buffers": not_found(f"{source} does not say what is allocated", LOG)}
    return {"buffers": reported(buffers, f"{source}: memory_usage")}


def _counted(metrics: Metrics | None) -> Runtime:
    """Every rank counts the same requests, so the first of several is enough."""
    if metrics is None:
        why = not_supported("SGLang offers no metrics", _METRICS)
        facts: dict[str, Any] = dict.fromkeys(
            ("running_requests", "busy_slots", "deferred_requests", "kv_usage", "preemptions", "prefix_hit_rate"), why
        )
        return Runtime(**facts)
    one = Metrics(tuple({s.name: s for s in reversed(metrics.samples)}.values()), metrics.source)
    running = one.whole("sglang:num_running_reqs")
    return Runtime(
        running_requests=running,
        busy_slots=running,
        deferred_requests=one.whole("sglang:num_queue_reqs"),
        kv_usage=one.largest_share("sglang:token_usage"),
        prefix_hit_rate=one.largest_share("sglang:cache_hit_rate"),
        preemptions=one.whole("sglang:num_retracted_reqs", "sglang:num_retracted_requests_total"),
        decode_tokens_per_s=_decode(one, running),
    )


def _decode(metrics: Metrics, running: Fact[int]) -> Fact[float]:
    """Tokens a second of one request, while some run; else by the mean time between tokens so far."""
    rate = metrics.total("sglang:gen_throughput")
    if isinstance(rate, Known) and rate.value > 0 and running.value_or(0):
        return estimated(rate.value / running.value_or(1), f"{rate.source} / num_running_reqs")
    means = ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds")
    return metrics.rate(*means, least=_ENOUGH_TOKENS)

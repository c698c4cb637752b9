"""The series of llama-server (as recorded) and of SGLang (by its source), for the same model of a server."""

from collections.abc import Callable, Mapping

from lab.fleet.engine import Engine
from lab.fleet.lines import Line, counter, gauge, mean_of
from lab.fleet.series_vllm import vllm_lines


def engine_lines(engine: Engine) -> list[Line]:
    """What the engine's own endpoint says."""
    return _BY_RUNTIME[engine.runtime](engine)


def llama_cpp_lines(engine: Engine) -> list[Line]:
    """As llama-server has them: busy seconds beside the tokens, no name of the model and no labels at all."""
    none: dict[str, str] = {}
    prompts = engine.requests_per_s * engine.prompt_tokens
    steps = min(1.0, engine.running) / engine.gap_s
    return [
        counter("llamacpp:prompt_tokens_total", none, prompts * (1 - engine.hits), engine.age_s),
        counter("llamacpp:prompt_tokens_cached_total", none, prompts * engine.hits, engine.age_s),
        counter("llamacpp:prompt_seconds_total", none, engine.requests_per_s * engine.prefill_s, engine.age_s),
        counter("llamacpp:tokens_predicted_total", none, engine.tokens_per_s, engine.age_s),
        counter("llamacpp:tokens_predicted_seconds_total", none, engine.tokens_per_s * engine.gap_s, engine.age_s),
        counter("llamacpp:n_decode_total", none, steps, engine.age_s),
        gauge("llamacpp:n_tokens_max", none, engine.context),
        gauge("llamacpp:prompt_tokens_seconds", none, engine.prompt_tokens * (1 - engine.hits) / engine.prefill_s),
        gauge("llamacpp:predicted_tokens_seconds", none, 1 / engine.gap_s),
        gauge("llamacpp:requests_processing", none, engine.running),
        gauge("llamacpp:requests_deferred", none, engine.waiting),
        gauge("llamacpp:n_busy_slots_per_decode", none, engine.running),
    ]


def sglang_lines(engine: Engine) -> list[Line]:
    """As SGLang has them with --enable-metrics."""
    named = {"model_name": engine.model}
    streamed = {**named, "is_streaming": "true"}
    requests, age = engine.requests_per_s, engine.age_s
    return [
        *(line for rank in range(engine.ranks) for line in _of_rank(engine, rank)),
        counter("sglang:prompt_tokens_total", streamed, requests * engine.prompt_tokens, age),
        counter(
            "sglang:cached_tokens_total",
            {**named, "cache_source": "device"},
            requests * engine.prompt_tokens * engine.hits,
            age,
        ),
        counter("sglang:generation_tokens_total", streamed, engine.tokens_per_s, age),
        counter("sglang:num_requests_total", streamed, requests, age),
        *mean_of("sglang:time_to_first_token_seconds", streamed, engine.queue_s + engine.prefill_s, requests, age),
        *mean_of("sglang:inter_token_latency_seconds", named, engine.gap_s, requests * (engine.answer_tokens - 1), age),
        *mean_of(
            "sglang:e2e_request_latency_seconds",
            streamed,
            engine.queue_s + engine.prefill_s + engine.decode_s,
            requests,
            age,
        ),
        *mean_of("sglang:queue_time_seconds", named, engine.queue_s, requests, age),
    ]


def _of_rank(engine: Engine, rank: int) -> list[Line]:
    """What every GPU that has a part of the layers says of the same requests."""
    own = {"engine_type": "unified", "model_name": engine.model, "pp_rank": "0", "tp_rank": str(rank)}
    return [
        gauge("sglang:num_running_reqs", own, engine.running, 0.1),
        gauge("sglang:num_queue_reqs", own, engine.waiting),
        gauge("sglang:gen_throughput", own, engine.tokens_per_s, 0.03),
        gauge("sglang:token_usage", own, engine.usage),
        gauge("sglang:num_used_tokens", own, engine.usage * engine.cache_tokens),
        gauge("sglang:max_total_num_tokens", own, engine.cache_tokens),
        gauge("sglang:cache_hit_rate", own, engine.hits),
        counter("sglang:num_retracted_requests_total", own, engine.preemptions_per_s, engine.age_s),
    ]


_BY_RUNTIME: Mapping[str, Callable[[Engine], list[Line]]] = {
    "vLLM": vllm_lines,
    "llama.cpp": llama_cpp_lines,
    "SGLang": sglang_lines,
}

"""/server_info: the whole configuration as JSON, which a server in development mode gives."""

from typing import Any

from unslow.facts.runtime import Runtime
from unslow.look.json_fields import at
from unslow.look.serving.json_facts import Place, count, facts_at, gibibytes, share, text, truth

_PLACES = (
    Place("context_length", ("model_config", "max_model_len"), count),
    Place("weights_type", ("model_config", "dtype"), text),
    Place("quantization", ("model_config", "quantization"), text),
    Place("eager", ("model_config", "enforce_eager"), truth),
    Place("max_sequences", ("scheduler_config", "max_num_seqs"), count),
    Place("max_batched_tokens", ("scheduler_config", "max_num_batched_tokens"), count),
    Place("tensor_parallel", ("parallel_config", "tensor_parallel_size"), count),
    Place("pipeline_parallel", ("parallel_config", "pipeline_parallel_size"), count),
    Place("gpu_memory_fraction", ("cache_config", "gpu_memory_utilization"), share),
    Place("kv_type_k", ("cache_config", "cache_dtype"), text),
    Place("kv_type_v", ("cache_config", "cache_dtype"), text),
    Place("prompt_cache", ("cache_config", "enable_prefix_caching"), truth),
    Place("cpu_offload_bytes", ("cache_config", "cpu_offload_gb"), gibibytes),
    Place("cpu_offload_bytes", ("offload_config", "uva", "cpu_offload_gb"), gibibytes),
    Place("attention", ("attention_config", "backend"), text),
    Place("device_used", ("device_config", "device"), text),
    Place("speculative", ("speculative_config", "method"), text),
    Place("draft_tokens", ("speculative_config", "num_speculative_tokens"), count),
)


def parse_info(info: Any, source: str) -> Runtime:
    """The settings that the server runs with; nothing where it does not give them."""
    facts: dict[str, Any] = {**facts_at(at(info, "vllm_config"), _PLACES, source)}
    return Runtime(**facts)

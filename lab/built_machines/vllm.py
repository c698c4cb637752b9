"""vLLM in a built world: its processes, its counters and the model that it serves."""

import json
from typing import Any, NamedTuple

from lab.built_machines.world import World

from unslow.facts.model import Model
from unslow.facts.values import reported_fact

PID = 2100
URL = "http://127.0.0.1:8000"


class Serving(NamedTuple):
    """How vLLM was started, and what its counters say."""

    model: str
    args: tuple[str, ...] = ()
    running: int = 0
    waiting: int = 0
    cache_used: float = 0.1
    preemptions: int = 0
    token_s: float = 0.01
    """Between two tokens of a request, on average."""
    queue_s: float = 0.0
    first_token_s: float = 0.2
    requests: int = 400
    context: int = 8192
    cache_tokens: int = 120_000


def serve_vllm(world: World, serving: Serving) -> World:
    """The world with the server in it."""
    words = ("/venv/bin/python3", "/venv/bin/vllm", "serve", serving.model, *serving.args)
    rows = {PID: ("vllm", words, 1), PID + 1: ("VLLM::EngineCor", ("VLLM::EngineCore",), PID)}
    for pid, (name, command, parent) in rows.items():
        world.add(
            {
                f"/proc/{pid}/comm": f"{name}\n",
                f"/proc/{pid}/cmdline": "".join(f"{word}\0" for word in command),
                f"/proc/{pid}/environ": "",
                f"/proc/{pid}/status": f"Name:\t{name}\nPid:\t{pid}\nPPid:\t{parent}\nCpus_allowed_list:\t0-15\n",
                f"/proc/{pid}/cgroup": "0::/system.slice/llama.service\n",
            }
        )
    listed = {"id": serving.model, "object": "model", "owned_by": "vllm", "max_model_len": serving.context}
    answers = {"version": {"version": "0.32.0"}, "v1/models": {"object": "list", "data": [listed]}}
    http = {f"GET {URL}/{path}": json.dumps(answer) for path, answer in answers.items()}
    return world.add(http=http | {f"GET {URL}/metrics": _metrics(serving)})


def _metrics(serving: Serving) -> str:
    tokens = serving.requests * 250
    figures = {
        "num_requests_running": serving.running,
        "num_requests_waiting": serving.waiting,
        "kv_cache_usage_perc": serving.cache_used,
        "num_preemptions_total": serving.preemptions,
        "generation_tokens_total": tokens,
        "inter_token_latency_seconds_count": tokens,
        "inter_token_latency_seconds_sum": tokens * serving.token_s,
        "request_queue_time_seconds_count": serving.requests,
        "request_queue_time_seconds_sum": serving.requests * serving.queue_s,
        "time_to_first_token_seconds_count": serving.requests,
        "time_to_first_token_seconds_sum": serving.requests * serving.first_token_s,
    }
    labels = f'{{engine="0",model_name="{serving.model}"}}'
    config = f'{{block_size="16",num_gpu_blocks="{serving.cache_tokens // 16}",gpu_memory_utilization="0.9"}}'
    rows = [f"vllm:{name}{labels} {value}\n" for name, value in figures.items()]
    return "".join([*rows, f"vllm:cache_config_info{config} 1.0\n"])


def llama_8b(weights_bytes: int, quant: str) -> Model:
    """Llama 3.1 8B by its config.json."""
    facts: dict[str, Any] = {
        "weights_bytes": weights_bytes, "quant": quant, "parameters": 8_030_261_248, "layers": 32, "width": 4096,
        "heads": 32, "kv_heads": 8, "key_length": 128, "value_length": 128, "vocabulary": 128256, "experts": 0,
        "experts_used": 0,
    }  # fmt: skip
    known: dict[str, Any] = {name: reported_fact(value, "config.json") for name, value in facts.items()}
    return Model(**known)

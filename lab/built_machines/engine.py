"""A serving engine on one GPU or many: its processes, its log, its counters."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from lab.built_machines.nvidia import Card, nvml
from lab.built_machines.world import World

from unslow.facts.values import Absence
from unslow.look.system import LookError

PID = 2100
LOG = "/var/log/engine.log"
WORKER = 2110
"""The number of the first worker; each GPU has one where there are several."""


class Engine(NamedTuple):
    """vLLM as somebody started it, and what it shows."""

    model: str
    args: tuple[str, ...] = ()
    version: str = "0.11.0"
    log: tuple[str, ...] = ()
    """Lines of its log; none where it writes to a terminal."""
    counted: Mapping[str, float] = {}
    """Its counters, without the prefix; one of `_total` and histograms' `_sum` and `_count` as they are."""
    cache: Mapping[str, str] = {}
    """Labels of the information on its cache."""
    engines: int = 1
    environment: str | None = ""
    """None where another user started it."""
    context: int = 8192
    words: tuple[str, ...] = ()
    """The whole command line where it is another than usual."""
    port: int = 8000


def run_vllm(world: World, engine: Engine, *cards: Card) -> World:
    """The world with vLLM in it, on all of these cards."""
    words = engine.words or ("/venv/bin/python3", "/venv/bin/vllm", "serve", engine.model, *engine.args)
    workers = [(WORKER + n, f"VLLM::Worker_TP{n}") for n in range(len(cards))] if len(cards) > 1 else []
    rows = [(PID, "vllm", words, 1), (PID + 1, "VLLM::EngineCor", ("VLLM::EngineCore",), PID)]
    rows += [(pid, title[:15], (title,), PID + 1) for pid, title in workers]
    for pid, name, command, parent in rows:
        _process(world, pid, name, command, parent, engine.environment)
    if engine.log:
        world.add({LOG: "".join(f"{line}\n" for line in engine.log)}, links={f"/proc/{PID}/fd/1": LOG})
    seen = nvml(PID + 1, "VLLM::EngineCore", *cards)
    for (pid, title), gpu in zip(workers, seen["gpus"], strict=False):
        gpu["compute_processes"][0]["pid"] = pid
        seen["process_names"][str(pid)] = title
    return world.add(asks={"nvml": seen}, http=_answers(engine))


def _process(world: World, pid: int, name: str, command: tuple[str, ...], parent: int, environment: str | None) -> None:
    hidden = LookError(f"/proc/{pid}/environ: permission denied", Absence.FAILED)
    files: dict[str, Any] = {
        f"/proc/{pid}/comm": f"{name}\n",
        f"/proc/{pid}/cmdline": "".join(f"{word}\0" for word in command),
        f"/proc/{pid}/environ": hidden if environment is None else environment,
        f"/proc/{pid}/status": f"Name:\t{name}\nPid:\t{pid}\nPPid:\t{parent}\nCpus_allowed_list:\t0-15\n",
        f"/proc/{pid}/cgroup": "0::/system.slice/llama.service\n",
    }
    world.add(files)


def _answers(engine: Engine) -> dict[str, str]:
    url = f"http://127.0.0.1:{engine.port}"
    listed = {"id": engine.model, "object": "model", "owned_by": "vllm", "max_model_len": engine.context}
    answers = {"version": {"version": engine.version}, "v1/models": {"object": "list", "data": [listed]}}
    http = {f"GET {url}/{path}": json.dumps(answer) for path, answer in answers.items()}
    return http | {f"GET {url}/metrics": _metrics(engine)}


def _metrics(engine: Engine) -> str:
    """What all engines count, in equal parts."""
    rows = []
    for number in range(engine.engines):
        labels = f'{{engine="{number}",model_name="{engine.model}"}}'
        for name, value in engine.counted.items():
            part = value if name == "kv_cache_usage_perc" else value / engine.engines
            rows.append(f"vllm:{name}{labels} {part}\n")
    config = ",".join(f'{name}="{value}"' for name, value in engine.cache.items())
    return "".join([*rows, *([f"vllm:cache_config_info{{{config}}} 1.0\n"] if config else [])])


def counters(  # noqa: PLR0913 (each is a counter)
    *,
    running: int = 0,
    waiting: int = 0,
    cache: float = 0.0,
    preemptions: int = 0,
    token_s: float = 0.0,
    queue_s: float = 0.01,
    first_token_s: float = 0.2,
    prompt: int = 500,
    answer: int = 250,
    requests: int = 400,
    hits: float = 0.0,
) -> dict[str, float]:
    """Counters of so many requests, all alike."""
    tokens, prompts = requests * answer, requests * prompt
    return {
        "num_requests_running": running,
        "num_requests_waiting": waiting,
        "kv_cache_usage_perc": cache,
        "num_preemptions_total": preemptions,
        "prompt_tokens_total": prompts,
        "generation_tokens_total": tokens,
        "prefix_cache_queries_total": prompts,
        "prefix_cache_hits_total": round(prompts * hits),
        "inter_token_latency_seconds_count": tokens,
        "inter_token_latency_seconds_sum": tokens * token_s,
        "request_queue_time_seconds_count": requests,
        "request_queue_time_seconds_sum": requests * queue_s,
        "request_prefill_time_seconds_count": requests,
        "request_prefill_time_seconds_sum": requests * max(0.0, first_token_s - queue_s),
        "request_prefill_kv_computed_tokens_count": requests,
        "request_prefill_kv_computed_tokens_sum": round(prompts * (1 - hits)),
        "request_decode_time_seconds_count": requests,
        "request_decode_time_seconds_sum": tokens * token_s,
        "time_to_first_token_seconds_count": requests,
        "time_to_first_token_seconds_sum": requests * first_token_s,
    }

"""Hugging Face's text-generation-inference: how it is found, its flags, its answers, its commands.

Written by its documentation and by recorded text: it needs a GPU, and none of it was run here. Its makers only keep
it in repair since 2026-01; they name vLLM, SGLang and llama.cpp as what to use instead.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from unslow.facts import knob
from unslow.facts.commands import by_hand
from unslow.facts.knob import Knob
from unslow.facts.merge import bound_facts, overlaid
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, not_found, not_supported, reported_fact
from unslow.look.command_line import Flag, Flags, Setting
from unslow.look.command_writer import PLACE, Answer, ChangeRequest, Program, Turn, Words, advice
from unslow.look.logs.commands import CommandLines
from unslow.look.logs.tgi import DIALECT
from unslow.look.openai_api import Server
from unslow.look.processes import Process, ProcessSigns
from unslow.look.runtimes import _engine_commands as engine
from unslow.look.runtimes import _engine_server as serving
from unslow.look.runtimes._given_settings import GivenSettings, shared_settings
from unslow.look.server_answers import value_at

NAME = "TGI"
PORTS = (3000,)
RANK = 2
PROCESSES = ProcessSigns(("text-generation", "python"), "text-generation")
_LOG = "give its log to `unslow triage`: `docker logs CONTAINER`"
_ENOUGH_REQUESTS = 3
_SPELLED_ALIKE = {
    "model": "model-id",
    "context": "max-total-tokens",
    "sequences": "max-concurrent-requests",
    "batched_tokens": "max-batch-prefill-tokens",
    "batch_total": "max-batch-total-tokens",
    "memory_fraction": "cuda-memory-fraction",
    "graphs": "cuda-graphs",
    "quantization": "quantize",
    "dtype": "dtype",
    "kv_type": "kv-cache-dtype",
    "shards": "num-shard",
    "draft_tokens": "speculate",
}
"""Settings whose environment variable is the flag in capitals."""
FLAGS = Flags(
    {
        "host": Flag(("--hostname",)),
        "port": Flag(("--port", "-p"), ("PORT",)),
        "api_key": Flag(("--api-key",), ("API_KEY",), secret=True),
        "input": Flag(("--max-input-tokens", "--max-input-length"), ("MAX_INPUT_TOKENS", "MAX_INPUT_LENGTH")),
        "attention": Flag((), ("ATTENTION",)),
        "prefix_cache": Flag((), ("PREFIX_CACHING", "USE_PREFIX_CACHING")),
        **{name: Flag((f"--{f}",), (f.replace("-", "_").upper(),)) for name, f in _SPELLED_ALIKE.items()},
    }
)
SHARED = frozenset({"--hostname", "--port", "-p", "--api-key", "--dtype", "--kv-cache-dtype", "--model-id"})
"""Flags that other programs have too."""
_PLACES = {
    "context_length": ("count", "max_total_tokens"),
    "kv_capacity_tokens": ("count", "max_batch_total_tokens"),
    "max_sequences": ("count", "max_concurrent_requests"),
    "weights_type": ("text", "model_dtype"),
    "device_used": ("text", "model_device_type"),
    "version": ("text", "version"),
}
_UNTOLD = ("eager", "attention", "quantization", "buffers", "tensor_parallel", "gpu_memory_fraction")
_CACHE_TYPES = {
    **dict.fromkeys(("f16", "bf16", "auto"), "auto"),
    **dict.fromkeys(("q8_0", "q4_0", "fp8", "fp8_e4m3fn"), "fp8_e4m3fn"),
    "fp8_e5m2": "fp8_e5m2",
}


def find(processes: Sequence[Process]) -> list[Process]:
    """Every launcher; the router and the shards are its children."""
    names, launcher = ("text-generation", "python"), "text-generation-launcher"
    return serving.find_servers(
        processes, names, lambda words: any(word.rpartition("/")[2] == launcher for word in words[:3])
    )


def requested_settings(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the environment could be read too, so that absence is a fact."""
    given = GivenSettings(NAME, FLAGS, settings, complete)
    # A list of batch sizes to capture graphs for; `0` is none
    sizes = given.word("graphs")
    eager = reported_fact(sizes.value.strip() == "0", sizes.source) if isinstance(sizes, Known) else sizes
    facts: dict[str, Any] = {
        **shared_settings(given),
        "gpu_memory_fraction": given.share("memory_fraction", default=1.0),
        "max_sequences": given.number("sequences", default=128),
        "kv_capacity_tokens": given.number("batch_total"),
        "eager": eager,
        "tensor_parallel": given.number("shards"),
        "attention": not_found("no variable selects the attention kernel"),
        "prompt_cache": not_found("no variable sets prefix caching"),
    }
    if kernel := settings.get("attention"):
        facts["attention"] = reported_fact(kernel.value, kernel.source)
    if cached := settings.get("prefix_cache"):
        facts["prompt_cache"] = reported_fact(cached.value.lower() in ("1", "true"), cached.source)
    return Runtime().with_facts(**facts)


COMMANDS = CommandLines(
    program=re.compile(
        r"\btext-generation-(?:launcher|server)\b|ghcr\.io/huggingface/text-generation-inference\S{0,60}"
    ),
    flags=FLAGS.spellings - SHARED,
    variables=("MAX_TOTAL_TOKENS", "MAX_BATCH_", "MAX_INPUT_", "CUDA_GRAPHS", "PREFIX_CACHING"),
    parse=partial(serving.parse_command, NAME, FLAGS, requested_settings),
)


def read_answers(server: Server) -> Subject | None:
    """The facts of all answers together; None where it is not TGI, LookError where nothing answers."""
    answer = serving.answer_if_offered(server, "/info")
    info, source = answer[0] if answer else None, f"{server.url}/info"
    told, name = serving.facts_at(info, _PLACES, source), serving.text(value_at(info, "model_id"))
    if name is None or "max_sequences" not in told:
        return None
    why = not_supported("TGI does not report it over HTTP", _LOG)
    facts: dict[str, Any] = {**dict.fromkeys(_UNTOLD, why), **told}
    runtime = Runtime(name=reported_fact(NAME, source), state=reported_fact("loaded", source))
    runtime = runtime.with_facts(url=reported_fact(server.url, "given"), **facts)
    metrics = serving.metrics_of(server, "tgi_")
    model = serving.model_of_name(name, source)
    if metrics is None:
        return Subject(runtime=runtime, model=model)
    busy = metrics.integer("tgi_batch_current_size")
    # By the mean time for each token, the first of every answer among them
    counted = Runtime().with_facts(
        busy_slots=busy,
        running_requests=busy,
        deferred_requests=metrics.integer("tgi_queue_size"),
        decode_tokens_per_s=metrics.rate("tgi_request_mean_time_per_token_duration", least=_ENOUGH_REQUESTS),
    )
    run = Run(queue_s=metrics.ratio("tgi_request_queue_duration_sum", "tgi_request_queue_duration_count"))
    return bound_facts(Subject(runtime=overlaid(runtime, counted), model=model, run=run))


ENGINE = serving.Engine(
    NAME,
    FLAGS,
    requested_settings,
    DIALECT,
    _LOG,
    # its host is that of its container, which means nothing here
    lambda settings: serving.url_of({name: value for name, value in settings.items() if name != "host"}, str(PORTS[0])),
    read_answers,
    marked_variables=False,
)
read, read_url = ENGINE.read, ENGINE.read_url


def _split(value: knob.Setting, _wanted: ChangeRequest) -> Answer:
    """Only every layer on all GPUs: one for none, else what the reader has."""
    if value is None:
        return Words(("shards",))
    count = "1" if value == "none" else str(value) if isinstance(value, int) and value > 0 else PLACE
    return Words(("shards",), ("--num-shard", count), missing=engine.NO_GPUS if count == PLACE else "")


_TURNS: Mapping[Knob, Turn] = {
    Knob.CONTEXT_LENGTH: engine.number("context", "--max-total-tokens"),
    Knob.KV_CACHE_TYPE: engine.cache_type("--kv-cache-dtype", _CACHE_TYPES, NAME),
    Knob.PARALLEL: engine.number("sequences", "--max-concurrent-requests"),
    Knob.BATCH: engine.number("batched_tokens", "--max-batch-prefill-tokens"),
    Knob.SPLIT_MODE: _split,
    Knob.GRAPHS: engine.only_away("graphs"),
    Knob.SPECULATIVE: engine.only_away("draft_tokens"),
    Knob.FIT_MARGIN: engine.share("--cuda-memory-fraction", "memory_fraction"),
    Knob.CAPACITY: advice("--max-batch-total-tokens N", "--kv-cache-dtype fp8_e4m3fn", "--max-concurrent-requests N"),
    Knob.DEVICE: engine.visible_device,
    Knob.QUANT: advice(by_hand("give `--model-id` a checkpoint of this model as AWQ, GPTQ or FP8")),
    Knob.QUANT_KERNEL: advice(by_hand("serve the same checkpoint with vLLM: TGI is in maintenance mode")),
    Knob.VERSION: advice(by_hand("serve the model with vLLM, SGLang or llama.cpp: TGI is in maintenance mode")),
}
_PROGRAM = Program(
    NAME,
    _TURNS,
    FLAGS,
    bare=lambda at_hand: [
        "text-generation-launcher",
        *(["--model-id", at_hand.checkpoint] if at_hand.checkpoint else []),
    ],
    no_model="add `--model-id MODEL`: the model is unknown",
    removal=engine.removal,
)
commands_for = _PROGRAM.commands_for

"""SGLang: how it is found, its flags, its answers, its commands.

Written by its documentation and by recorded text: it needs a GPU, and none of it was run here.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from unslow.facts.commands import by_hand
from unslow.facts.knob import Knob
from unslow.facts.knob import Setting as KnobSetting
from unslow.facts.merge import bound_facts, overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, estimated_fact, not_found, not_supported, reported_fact
from unslow.look.command_line import ALL_WORDS, Flag, Flags, Setting, negatable
from unslow.look.command_writer import PLACE, Advice, Answer, ChangeRequest, Program, Turn, Words, advice, is_integer
from unslow.look.logs.commands import CommandLines
from unslow.look.logs.sglang import DIALECT
from unslow.look.openai_api import Server, parse_model_list
from unslow.look.processes import Process, ProcessSigns
from unslow.look.runtimes import _engine_commands as engine
from unslow.look.runtimes import _engine_server as serving
from unslow.look.runtimes._given_settings import GivenSettings, shared_settings
from unslow.look.server_answers import Metrics, value_at

NAME = "SGLang"
PORTS = (30000,)
RANK = 2
PROCESSES = ProcessSigns(("sglang", "python", "pt_main_thread"), "sglang")
LOG = "start it with its output in a file (`… > sglang.log 2>&1`), or give a log to `unslow triage`"
_ENOUGH_TOKENS = 50
FLAGS = Flags(
    {
        "host": Flag(("--host",)),
        "port": Flag(("--port",)),
        "certificate": Flag(("--ssl-certfile",)),
        "api_key": Flag(("--api-key",), most=ALL_WORDS, secret=True),
        "admin_key": Flag(("--admin-api-key",), most=ALL_WORDS, secret=True),
        "model": Flag(("--model-path", "--model")),
        "served_name": Flag(("--served-model-name",)),
        "download_folder": Flag(("--download-dir",)),
        "memory_fraction": Flag(("--mem-fraction-static",)),
        "kv_type": Flag(("--kv-cache-dtype",)),
        "cpu_offload": Flag(("--cpu-offload-gb",)),
        "context": Flag(("--context-length",)),
        "sequences": Flag(("--max-running-requests",)),
        "batched_tokens": Flag(("--chunked-prefill-size",)),
        "no_prefix_cache": negatable("--disable-radix-cache"),
        "no_graphs": negatable("--disable-cuda-graph"),
        "compile": negatable("--enable-torch-compile"),
        "attention": Flag(("--attention-backend",)),
        "moe_backend": Flag(("--moe-runner-backend",)),
        "tensor_parallel": Flag(("--tp-size", "--tp", "--tensor-parallel-size")),
        "pipeline_parallel": Flag(("--pp-size", "--pp", "--pipeline-parallel-size")),
        "data_parallel": Flag(("--dp-size", "--dp", "--data-parallel-size")),
        "device": Flag(("--device",)),
        "quantization": Flag(("--quantization",)),
        "dtype": Flag(("--dtype",)),
        "speculative": Flag(("--speculative-algorithm", "--speculative-algo")),
        "draft_model": Flag(("--speculative-draft-model-path", "--speculative-draft")),
        "draft_tokens": Flag(("--speculative-num-draft-tokens",)),
        "metrics": negatable("--enable-metrics"),
    }
)
SHARED = frozenset({
    "--host", "--port", "--ssl-certfile", "--api-key", "--model-path", "--model", "--served-model-name", "--device",
    "--download-dir", "--dtype", "--quantization", "--kv-cache-dtype", "--cpu-offload-gb", "--attention-backend",
    "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "--tp", "--pp", "--dp",
    "--context-length", "--enable-metrics",
})  # fmt: skip
"""Flags that other programs have too."""
_PLACES = {
    "context_set": ("count", "context_length"),
    "kv_capacity_tokens": ("count", "max_total_num_tokens"),
    "tensor_parallel": ("count", "tp_size"),
    "pipeline_parallel": ("count", "pp_size"),
    "quantization": ("text", "quantization"),
    "weights_type": ("text", "dtype"),
    "kv_type_k": ("text", "kv_cache_dtype"),
    "kv_type_v": ("text", "kv_cache_dtype"),
    "gpu_memory_fraction": ("share", "mem_fraction_static"),
    "max_sequences": ("count", "max_running_requests"),
    "max_batched_tokens": ("count", "chunked_prefill_size"),
    "prompt_cache": ("untruth", "disable_radix_cache"),
    "eager": ("truth", "disable_cuda_graph"),
    "attention": ("text", "attention_backend"),
    "speculative": ("text", "speculative_algorithm"),
    "draft_tokens": ("count", "speculative_num_draft_tokens"),
    "cpu_offload_bytes": ("gibibytes", "cpu_offload_gb"),
    "device_used": ("text", "device"),
    "metrics_endpoint": ("truth", "enable_metrics"),
    "version": ("text", "version"),
}
_CACHE_TYPES = {
    **dict.fromkeys(("f16", "bf16", "auto"), "auto"),
    **dict.fromkeys(("q8_0", "q4_0", "fp8", "fp8_e5m2"), "fp8_e5m2"),
    **{word: word for word in ("fp8_e4m3", "bfloat16")},
}
"""By the nearest that it has; e5m2 needs no scales in the checkpoint (srt/server_args.py)."""


def find(processes: Sequence[Process]) -> list[Process]:
    """Every server; its scheduler and its other children belong to it."""
    return serving.find_servers(processes, ("sglang", "python", "pt_main_thread"), is_server)


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line starts a server."""
    head = list(words[:6])
    programs = [at for at, word in enumerate(head) if word.rpartition("/")[2] == "sglang"]
    return "sglang.launch_server" in head or any(head[at + 1 : at + 2] == ["serve"] for at in programs)


def requested_settings(settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
    """What the runtime was told; `complete` says that the whole command line was seen, so that absence is a fact."""
    given = GivenSettings(NAME, FLAGS, settings, complete)
    facts: dict[str, Any] = {
        **shared_settings(given),
        "context_length": given.number("context"),
        "prompt_cache": given.untruth("no_prefix_cache", default=True),
        "eager": given.truth("no_graphs", default=False),
        "attention": given.word("attention"),
        "speculative": given.word("speculative"),
        "metrics_endpoint": given.truth("metrics", default=False),
    }
    return Runtime().with_facts(**facts)


COMMANDS = CommandLines(
    program=re.compile(r"\bsglang(?:\.launch_server| serve)\b|\blmsysorg/sglang(?::[\w.-]{1,60})?"),
    flags=FLAGS.spellings - SHARED,
    variables=("SGLANG_", "SGL_"),
    parse=partial(serving.parse_command, NAME, FLAGS, requested_settings),
)


def read_answers(server: Server) -> Subject | None:
    """The facts of all answers together; None where it is not SGLang, LookError where nothing answers."""
    answer = serving.answer_if_offered(server, "/server_info", "/get_server_info")
    info, path = answer or (None, "")
    if value_at(info, "max_total_num_tokens") is None and value_at(info, "tp_size") is None:
        return None
    source = f"{server.url}{path}"
    listed = serving.answer_if_offered(server, "/v1/models")
    models = parse_model_list(listed[0], f"{server.url}/v1/models") if listed else None
    # what one scheduler says that it holds, in GiB
    states = value_at(info, "internal_states")
    usage = value_at(states[0], "memory_usage") if isinstance(states, list) and states else None
    kinds = {"model": "weight", "kv": "kvcache"}.items()
    sizes = [(kind, serving.KINDS["gibibytes"](value_at(usage, name))) for kind, name in kinds]
    buffers = [Buffer(device="GPU0", kind=kind, bytes=size, on_gpu=True) for kind, size in sizes if size]  # type: ignore[arg-type]
    unsized = not_found(f"{source} does not say what is allocated", LOG)
    facts: dict[str, Any] = {
        **serving.facts_at(info, _PLACES, source),
        "buffers": reported_fact(buffers, f"{source}: memory_usage") if buffers else unsized,
    }
    runtime = Runtime(name=reported_fact(NAME, source), state=reported_fact("loaded", source))
    runtime = runtime.with_facts(url=reported_fact(server.url, "given"), **facts)
    if models:
        runtime = overlaid(runtime, Runtime().with_facts(context_length=models[0].context_length))
    whole = overlaid(runtime, _runtime_of_metrics(serving.metrics_of(server, "sglang:")))
    written = serving.text(value_at(info, "model_path")) or ""
    name = serving.text(value_at(info, "served_model_name")) or (models[0].name if models else "")
    known = Model(name=reported_fact(name, source)) if name else Model()
    return bound_facts(Subject(runtime=whole, model=overlaid(serving.model_of_name(written, source), known)))


def _runtime_of_metrics(metrics: Metrics | None) -> Runtime:
    """Every rank counts the same requests, so the first of several is enough."""
    if metrics is None:
        why = not_supported("SGLang offers no metrics", "start SGLang with --enable-metrics")
        names = ("running_requests", "busy_slots", "deferred_requests", "kv_usage", "preemptions", "prefix_hit_rate")
        return Runtime().with_facts(**dict.fromkeys(names, why))
    one = Metrics(tuple({s.name: s for s in reversed(metrics.samples)}.values()), metrics.source)
    running = one.integer("sglang:num_running_reqs")
    # tokens a second of one request, while some run; else by the mean time between tokens so far
    means = ("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds")
    decode, rate = one.rate(*means, least=_ENOUGH_TOKENS), one.total("sglang:gen_throughput")
    if isinstance(rate, Known) and rate.value > 0 and running.value_or(0):
        decode = estimated_fact(rate.value / running.value_or(1), f"{rate.source} / num_running_reqs")
    return Runtime().with_facts(
        running_requests=running,
        busy_slots=running,
        deferred_requests=one.integer("sglang:num_queue_reqs"),
        preemptions=one.integer("sglang:num_retracted_reqs", "sglang:num_retracted_requests_total"),
        kv_usage=one.largest_share("sglang:token_usage"),
        prefix_hit_rate=one.largest_share("sglang:cache_hit_rate"),
        decode_tokens_per_s=decode,
    )


ENGINE = serving.Engine(
    NAME, FLAGS, requested_settings, DIALECT, LOG, partial(serving.url_of, port="30000"), read_answers
)
read, read_url = ENGINE.read, ENGINE.read_url
_share = engine.share("--mem-fraction-static", "memory_fraction")


def _split(value: KnobSetting, wanted: ChangeRequest) -> Answer:
    """Every layer on that many GPUs, or with `layer` whole layers on each of those that are in use."""
    names = ("tensor_parallel", "pipeline_parallel")
    if value is None:
        return Words(names)
    if value == "layer":
        now = engine.gpus_in_use(wanted.runtime)
        flag, count = "--pp-size", str(now) if now > 1 else PLACE
    else:
        given = is_integer(value) and value > 0
        flag, count = "--tp-size", "1" if value == "none" else str(value) if given else PLACE
    return Words(names, (flag, count), missing=engine.NO_GPUS if count == PLACE else "")


def _capacity(_value: KnobSetting, wanted: ChangeRequest) -> Answer:
    fraction = wanted.runtime.memory.gpu_memory_fraction.value_or(0.0)
    shorter = wanted.runtime.context.length.value_or(0) // 2
    more = f"--mem-fraction-static {min(engine.MOST_MEMORY, fraction + engine.MORE_MEMORY):.2f}"
    return Advice(
        [
            *([more] if 0 < fraction < engine.MOST_MEMORY else []),
            "--kv-cache-dtype fp8_e5m2",
            *([f"--context-length {shorter}"] if shorter >= engine.SHORTEST_CONTEXT else []),
        ],
        "how much more it needs is unknown",
    )


_TURNS: Mapping[Knob, Turn] = {
    Knob.CONTEXT_LENGTH: engine.number("context", "--context-length"),
    Knob.KV_CACHE_TYPE: engine.cache_type("--kv-cache-dtype", _CACHE_TYPES, NAME),
    Knob.PARALLEL: engine.number("sequences", "--max-running-requests"),
    Knob.BATCH: engine.number("batched_tokens", "--chunked-prefill-size"),
    Knob.SPLIT_MODE: _split,
    Knob.GPU_LAYERS: engine.only_away("cpu_offload"),
    Knob.GRAPHS: engine.switched_off_by("no_graphs", "--disable-cuda-graph"),
    Knob.QUANT_KERNEL: lambda value, _wanted: Words(("quantization",), ("--quantization", str(value)) if value else ()),
    Knob.SPECULATIVE: engine.only_away("speculative", "draft_model", "draft_tokens"),
    Knob.PROMPT_CACHE: engine.switched_off_by("no_prefix_cache", "--disable-radix-cache"),
    Knob.FLASH_ATTENTION: lambda value, _wanted: Words(
        ("attention",), () if value is None else ("--attention-backend", "triton" if value is False else "flashinfer")
    ),
    Knob.MEMORY_SHARE: _share,
    # what it leaves free is what its share leaves
    Knob.FIT_MARGIN: lambda value, wanted: Words() if Knob.MEMORY_SHARE in wanted.changes else _share(value, wanted),
    Knob.DEVICE: engine.visible_device,
    Knob.CAPACITY: _capacity,
    Knob.QUANT: advice(by_hand("give `--model-path` a checkpoint of this model as AWQ, GPTQ or FP8")),
    Knob.THINKING: engine.unthinking,
    Knob.VERSION: advice("pip install --upgrade sglang"),
}
_PROGRAM = Program(
    NAME,
    _TURNS,
    FLAGS,
    bare=lambda at_hand: [
        *(at_hand.program or "python3", "-m", "sglang.launch_server"),
        *(["--model-path", at_hand.checkpoint] if at_hand.checkpoint else []),
    ],
    no_model="add `--model-path MODEL`: the model is unknown",
    removal=engine.removal,
)
commands_for = _PROGRAM.commands_for

"""vLLM: how it is found, how its settings are read, how its commands are written."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from unslow.facts.merge import bound_facts, overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import LARGEST_COUNT, NOT_LOOKED, Fact, Known, Unknown, not_found, reported_fact
from unslow.look.command_line import UNSET, Setting, name_of_path
from unslow.look.logs.vllm import DIALECT
from unslow.look.openai_api import ListedModel, Server, json_if_ok, parse_model_list
from unslow.look.processes import Process, ProcessSigns, ancestors, outermost, words_of
from unslow.look.running_server import process_facts
from unslow.look.runtimes import _engine_server as serving
from unslow.look.runtimes._given_settings import config_path, read_config
from unslow.look.runtimes.vllm import flags
from unslow.look.runtimes.vllm.bench import read_counters, score, start_timing
from unslow.look.runtimes.vllm.flags import COMMANDS, FLAGS, NAME
from unslow.look.server_answers import Metrics, parse_metrics, value_at, word_at
from unslow.look.system import ExchangeError, LookError, System, try_look, unknown
from unslow.look.system.http import is_local_url

__all__ = [
    "COMMANDS", "NAME", "PORTS", "PROCESSES", "RANK", "find", "read", "read_url", "score",
    "start_timing", "takes_command",
]  # fmt: skip
PORTS = (8000,)
RANK = 2
PROCESSES = ProcessSigns(("vllm", "VLLM", "python", "pt_main_thread", "uv", "ray"), "vllm")
ENOUGH_TOKENS = 50  # fewer say more of first tokens than of speed
_LONGEST_VERSION = 60
_MOST_BYTES = 2**60
_ENGINE = "VLLM::EngineCor"  # the kernel keeps fifteen letters
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "vllm.entrypoints.cli.main")
_LOG = "start it with its output in a file (`vllm serve … > vllm.log 2>&1`), or give a log to `unslow triage`"
_SAID_IN_LOG = ("attention", "kernel", "buffers", "kv_bytes", "device_used")
_SAID_ON_MACHINE = (
    "command", "eager", "quantization", "weights_type", "tensor_parallel", "pipeline_parallel", "max_sequences",
    "max_batched_tokens", "cpu_offload_bytes", "speculative",
)  # fmt: skip
_PLACES = {
    "context_length": ("count", "model_config.max_model_len"),
    "weights_type": ("text", "model_config.dtype"),
    "quantization": ("text", "model_config.quantization"),
    "eager": ("truth", "model_config.enforce_eager"),
    "max_sequences": ("count", "scheduler_config.max_num_seqs"),
    "max_batched_tokens": ("count", "scheduler_config.max_num_batched_tokens"),
    "tensor_parallel": ("count", "parallel_config.tensor_parallel_size"),
    "pipeline_parallel": ("count", "parallel_config.pipeline_parallel_size"),
    "gpu_memory_fraction": ("share", "cache_config.gpu_memory_utilization"),
    "kv_type_k": ("text", "cache_config.cache_dtype"),
    "kv_type_v": ("text", "cache_config.cache_dtype"),
    "prompt_cache": ("truth", "cache_config.enable_prefix_caching"),
    "cpu_offload_bytes": ("gibibytes", "cache_config.cpu_offload_gb", "offload_config.uva.cpu_offload_gb"),
    "attention": ("text", "attention_config.backend"),
    "device_used": ("text", "device_config.device"),
    "speculative": ("text", "speculative_config.method"),
    "draft_tokens": ("count", "speculative_config.num_speculative_tokens"),
}
_PACKED_AT_LOAD = {"fp8": "FP8"}
_PLAIN = ("BF16", "F16", "FP16", "F32")
_READ = (
    "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
    "vllm:num_preemptions_total", "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total",
    "vllm:cache_config_info", "vllm:inter_token_latency_seconds_sum", "vllm:inter_token_latency_seconds_count",
    "vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count",
    "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total",
)  # fmt: skip
_GRAPH_MODE = "compilation_config.cudagraph_mode"


class Answers(NamedTuple):
    """What a server said; an answer that is not there is unknown, with the reason."""

    url: str
    version: Fact[str]
    models: list[ListedModel] | Unknown
    metrics: Metrics | Unknown
    info: Any


def find(processes: Sequence[Process]) -> list[Process]:
    """Every server, and every engine that some program runs without one."""
    servers = serving.find_servers(processes, ("vllm", "python", "pt_main_thread", "uv", "ray"), is_server)
    engines = [p for p in processes if p.name.startswith(_ENGINE)]
    alone = outermost(engines, processes, servers)
    by_engine = {
        p.pid: p for engine in alone for p in ancestors(engine, processes) if takes_command(words_of(p.command()))
    }
    servers += outermost(list(by_engine.values()), processes)
    return [*servers, *outermost(engines, processes, servers)]


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line starts a server, by the names in it."""
    head = list(words[:6])
    programs = [at for at, word in enumerate(head) if "vllm" in name_of_path(word).lower()]
    return any(head[at + 1 : at + 2] == ["serve"] for at in programs) or any(word in _MODULES for word in head)


def takes_command(words: Sequence[str], _model: Model | None = None) -> bool:
    """Whether a command line has the flags of `vllm serve`, of a process known to run vLLM: scripts have any name."""
    return is_server(words) or "serve" in words[1:6]


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """A server by its process; an engine without one by what can be seen of it."""
    if process.name.startswith("VLLM::"):
        return (_engine(process),)
    command, environment = process.command(), process.environment()
    words = words_of(command)
    file = config_path(words)
    in_file = read_config(process, FLAGS, file) if file else {}
    settings = {**(in_file or {}), **FLAGS.settings(words, environment.value_or({}))}
    written = flags.model_of(words, settings)
    url = serving.url_of(settings, "8000")
    answers = _answers(process.system, url.value, settings, api_key, written) if isinstance(url, Known) else url
    path, log = serving.read_own_log(process, DIALECT, _LOG)
    asked = flags.requested_settings(settings, complete=isinstance(environment, Known) and in_file is not None)
    if isinstance(answers, Answers):
        http = subject_of(answers)
    else:
        names = ("state", "busy_slots", "running_requests", "kv_usage", "preemptions")
        http = Subject(runtime=Runtime().with_facts(**dict.fromkeys(names, answers)))
    version = http.runtime.version if isinstance(http.runtime.version, Known) else log.runtime.version
    asked = flags.without_dead_variable(msgspec.structs.replace(asked, version=version))
    runtime = overlaid(overlaid(asked, log.runtime), http.runtime)
    name = reported_fact(NAME, f"/proc/{process.pid}/cmdline")
    runtime = overlaid(runtime, process_facts(process, name, FLAGS.without_secrets, url, path))
    model = overlaid(serving.model_of_name(written, "command line"), overlaid(log.model, http.model))
    files = _as_loaded(serving.with_files(process.system, model, written, process), runtime)
    runtime = _with_reasons(flags.with_defaults(runtime), _SAID_IN_LOG, "vLLM reports it only in its log", _LOG)
    return (Subject(runtime=runtime, model=files, run=http.run),)


def _as_loaded(model: Model, runtime: Runtime) -> Model:
    """The model as it is in memory: `--quantization fp8` packs plain weights at the load; the log says how small."""
    packed = _PACKED_AT_LOAD.get(runtime.compute.quantization.value_or(""))
    buffers = runtime.memory.buffers
    if not packed or model.quant.value_or("") not in _PLAIN or not isinstance(buffers, Known):
        return model
    held = sum(buffer.bytes for buffer in buffers.value if buffer.kind == "model")
    if not held or runtime.placement.tensor_parallel.value_or(1) > 1:  # then the log tells of a part
        return model
    quant = reported_fact(packed, "--quantization")
    return msgspec.structs.replace(model, quant=quant, weights_bytes=reported_fact(held, buffers.source))


def _engine(process: Process) -> Subject:
    """An engine that a program of its own runs, as with `LLM(...)`: it has no address to ask."""
    why = not_found("this engine runs inside another program and has no API", _LOG)
    path, log = serving.read_own_log(process, DIALECT, _LOG)
    runtime = Runtime().with_facts(
        name=reported_fact(NAME, f"/proc/{process.pid}/comm"),
        pid=reported_fact(process.pid, "/proc"),
        url=why,
        log_path=path,
        container=process.container(),
        busy_slots=why,
    )
    return Subject(runtime=overlaid(log.runtime, runtime), model=overlaid(Model(path=why), log.model))


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The server at a URL; None where it is not vLLM."""
    answers = read_answers(Server(system, url.rstrip("/"), api_key))
    if answers is None:
        return None
    subject = subject_of(answers)
    how = "run unslow on its machine, or start vLLM with VLLM_SERVER_DEV_MODE=1"
    runtime = _with_reasons(subject.runtime, _SAID_ON_MACHINE + _SAID_IN_LOG, "its API does not say", how)
    model = subject.model
    if is_local_url(url):
        models = answers.models
        root = models[0].root.value_or("") if isinstance(models, list) and models else ""
        model = serving.with_files(system, model, root)
    return (msgspec.structs.replace(subject, runtime=flags.with_defaults(runtime), model=model),)


def _with_reasons(runtime: Runtime, names: tuple[str, ...], why: str, how_to_get: str) -> Runtime:
    missing = {n: not_found(why, how_to_get) for n in names if runtime.fact(n) == NOT_LOOKED}
    return runtime.with_facts(**missing)


def _answers(system: System, url: str, settings: dict[str, Setting], api_key: str, written: str) -> Answers | Unknown:
    try:
        answers = read_answers(Server(system, url, api_key or settings.get("api_key", UNSET).value))
    except LookError as error:
        return unknown(error)
    if answers is None:
        return not_found(f"something else answers at {url}")
    names = {written, settings.get("served_name", Setting(written, "")).value}
    if isinstance(answers.models, list) and not names & {
        name for model in answers.models for name in (model.name, model.root.value_or(""))
    }:
        return not_found(f"another model answers at {url}")
    return answers


def read_answers(server: Server) -> Answers | None:
    """Ask a server everything that costs it nothing; None where it is not vLLM, LookError where nothing answers."""
    version = word_at(json_if_ok(server.ask("/version")), "version")
    if not version:
        return None
    metrics: Metrics | Unknown
    models: list[ListedModel] | Unknown
    try:
        metrics = parse_metrics(server.text("/metrics"), f"{server.url}/metrics", "vllm:")
    except LookError as error:
        # all of them are fifty kilobytes, which may not pass a slow proxy in time
        metrics = (isinstance(error, ExchangeError) and read_counters(server, _READ)) or unknown(error)
    try:
        listed = parse_model_list(server.json("/v1/models"), f"{server.url}/v1/models")
        models = not_found(f"{server.url}/v1/models lists no models") if listed is None else listed
    except LookError as error:
        models = unknown(error)
    own = isinstance(metrics, Metrics) and metrics.samples
    if not own and not (isinstance(models, list) and any(model.owner == "vllm" for model in models)):
        return None
    # its whole configuration, which it gives in development mode only; the first time it may take too long for us
    info = try_look(None, server.json, "/server_info?config_format=json")
    known = reported_fact(version[:_LONGEST_VERSION], f"{server.url}/version")
    return Answers(server.url, known, models, metrics, info)


def subject_of(answers: Answers) -> Subject:
    """The facts of all answers together."""
    models, metrics = answers.models, answers.metrics
    first = models[0] if isinstance(models, list) and models else None
    source = f"{answers.url}/v1/models"
    why = models if isinstance(models, Unknown) else not_found(f"{source} lists no model")
    runtime = Runtime().with_facts(
        name=reported_fact(NAME, f"{answers.url}/version"),
        version=answers.version,
        url=reported_fact(answers.url, "given"),
        state=reported_fact("loaded", source) if first else why,
        context_length=first.context_length if first else why,
    )
    run, model = Run(), Model()
    if isinstance(metrics, Metrics):
        waits = "vllm:request_queue_time_seconds"
        run = Run(queue_s=metrics.ratio(f"{waits}_sum", f"{waits}_count"))
    if first:
        root = first.root
        named = reported_fact(first.name, root.source if isinstance(root, Known) else "")
        model = Model(name=named, path=root if root.value_or("").startswith("/") else Model().path)
    told = value_at(answers.info, "vllm_config")
    settings = serving.facts_at(told, _PLACES, f"{answers.url}/server_info")
    mode, is_eager = value_at(told, *_GRAPH_MODE.split(".")), settings.get("eager")
    if mode is not None and flags.is_without_graphs(mode) and not (is_eager and is_eager.value):
        settings["eager"] = reported_fact(value=True, source=f"{answers.url}/server_info: {_GRAPH_MODE}")
    whole = overlaid(overlaid(runtime, _runtime_of_metrics(metrics)), Runtime().with_facts(**settings))
    return bound_facts(Subject(runtime=whole, model=model, run=run))


def _runtime_of_metrics(metrics: Metrics | Unknown) -> Runtime:
    """What its counters say; older versions have other names."""
    if isinstance(metrics, Unknown):
        names = ("running_requests", "deferred_requests", "busy_slots", "kv_usage", "preemptions", "prefix_hit_rate")
        return Runtime().with_facts(**dict.fromkeys(names, metrics))
    running = metrics.integer("vllm:num_requests_running")
    config = metrics.labels("vllm:cache_config_info")
    hits = metrics.ratio("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
    if isinstance(hits, Unknown):
        hits = metrics.largest_share("vllm:gpu_prefix_cache_hit_rate")
    elif hits.value > 1:
        hits = not_found(f"{metrics.source} counts more hits than queries")
    means = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
    facts: dict[str, Any] = {
        "running_requests": running,
        "busy_slots": running,
        "deferred_requests": metrics.integer("vllm:num_requests_waiting"),
        "kv_usage": metrics.largest_share("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        "preemptions": metrics.integer("vllm:num_preemptions_total", "vllm:num_preemptions"),
        "prefix_hit_rate": hits,
        "draft_acceptance": metrics.ratio(
            "vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"
        ),
        "decode_tokens_per_s": metrics.rate(*means, least=ENOUGH_TOKENS),
        # those that were computed, by the time that requests spent on it
        "prefill_tokens_per_s": metrics.ratio(
            "vllm:request_prefill_kv_computed_tokens_sum", "vllm:request_prefill_time_seconds_sum", 0
        ),
        **cache_facts(config, f"{metrics.source}: vllm:cache_config_info"),
    }
    if metrics.values("vllm:engine_sleep_state", sleep_state="awake") == [0.0]:
        facts["state"] = reported_fact("asleep", f"{metrics.source}: vllm:engine_sleep_state")
    return Runtime().with_facts(**facts)


def cache_facts(config: Mapping[str, str], source: str) -> dict[str, Fact[Any]]:
    """Facts of a runtime: the labels of an information metric are the configuration of its cache."""
    if not config:
        return {}
    blocks, block = _number(config, "num_gpu_blocks"), _number(config, "block_size")
    tokens = _number(config, "kv_cache_size_tokens") or (blocks or 0) * (block or 0)
    fraction, size = config.get("gpu_memory_utilization", ""), _number(config, "kv_cache_memory_bytes")
    is_share = fraction.replace(".", "", 1).isdecimal() and 0 < float(fraction) <= 1
    kind = config.get("cache_dtype", "auto")
    found: dict[str, Any] = {
        "kv_capacity_tokens": tokens if 0 < tokens < LARGEST_COUNT else None,
        "kv_bytes": size if size and size < _MOST_BYTES else None,
        "gpu_memory_fraction": float(fraction) if is_share else None,
        "kv_blocks_set": _number(config, "num_gpu_blocks_override") or None,
        "prompt_cache": {"True": True, "False": False}.get(config.get("enable_prefix_caching", "")),
        **dict.fromkeys(("kv_type_k", "kv_type_v"), None if kind == "auto" else kind[:40]),
    }
    return {name: reported_fact(value, source) for name, value in found.items() if value is not None}


def _number(config: Mapping[str, str], name: str) -> int | None:
    text = config.get(name, "")
    return int(text) if text.isdecimal() and len(text) <= len(str(_MOST_BYTES)) else None

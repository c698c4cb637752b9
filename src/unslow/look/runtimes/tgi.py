"""Hugging Face's text-generation-inference: how it is found, how its settings are read, how its commands are written.

Written by its documentation and by recorded text: it needs a GPU, and none of it was run here. Its makers only keep
it in repair since 2026-01; they name vLLM, SGLang and llama.cpp as what to use instead.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from unslow.facts import knob, placed
from unslow.facts.bounded import bounded
from unslow.facts.commands import Commands
from unslow.facts.knob import Change, Knob
from unslow.facts.merge import overlaid
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, not_supported, reported
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.command_line import Setting
from unslow.look.command_writer import PLACE, Answer, Turn, Wanted, Words, write_commands
from unslow.look.json_fields import at
from unslow.look.logs.tgi import DIALECT
from unslow.look.openai_api.server import Server
from unslow.look.processes import Process
from unslow.look.prometheus_text import Metrics
from unslow.look.serving.address import url_of
from unslow.look.serving.asking import metrics_of, offered
from unslow.look.serving.engine import Engine
from unslow.look.serving.json_facts import Place, count, facts_at, text
from unslow.look.serving.model_folder import model_of_name
from unslow.look.serving.processes import find_servers
from unslow.look.serving.tgi_flags import FLAGS, told
from unslow.look.serving.tgi_flags import PROGRAM as NAME
from unslow.look.serving.turns import NO_GPUS, advice, cache_type, number, only_away, program_of, share, visible_device

PORTS = (3000,)
RANK = 2

_NAMES = ("text-generation", "python")
_LOG = "give its log to `unslow triage`: `docker logs CONTAINER`"
_ENOUGH_REQUESTS = 3
_PLACES = (
    Place("context_length", ("max_total_tokens",), count),
    Place("kv_capacity_tokens", ("max_batch_total_tokens",), count),
    Place("max_sequences", ("max_concurrent_requests",), count),
    Place("weights_type", ("model_dtype",), text),
    Place("device_used", ("model_device_type",), text),
    Place("version", ("version",), text),
)
_UNTOLD = ("eager", "attention", "quantization", "buffers", "tensor_parallel", "gpu_memory_fraction")


def find(processes: Sequence[Process]) -> list[Process]:
    """Every launcher; the router and the shards are its children."""
    return find_servers(processes, _NAMES, is_server)


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line starts a server."""
    return any(word.rpartition("/")[2] == "text-generation-launcher" for word in words[:3])


def _url_of(settings: Mapping[str, Setting]) -> Fact[str]:
    """Its host is that of its container, which means nothing here."""
    return url_of({name: setting for name, setting in settings.items() if name != "host"}, str(PORTS[0]))


def _asked(server: Server) -> Subject | None:
    answer = offered(server, "/info")
    info = answer[0] if answer else None
    if text(at(info, "model_id")) is None or count(at(info, "max_concurrent_requests")) is None:
        return None
    source = f"{server.url}/info"
    why = not_supported("TGI does not say it over HTTP", _LOG)
    facts: dict[str, Any] = {**dict.fromkeys(_UNTOLD, why), **facts_at(info, _PLACES, source)}
    runtime = Runtime(
        name=reported(NAME, source), url=reported(server.url, "given"), state=reported("loaded", source), **facts
    )
    metrics = metrics_of(server, "tgi_")
    model = model_of_name(text(at(info, "model_id")) or "", source)
    if metrics is None:
        return Subject(runtime=runtime, model=model)
    return bounded(Subject(runtime=overlaid(runtime, _counted(metrics)), model=model, run=_run(metrics)))


def _counted(metrics: Metrics) -> Runtime:
    busy = metrics.whole("tgi_batch_current_size")
    return Runtime(
        busy_slots=busy,
        running_requests=busy,
        deferred_requests=metrics.whole("tgi_queue_size"),
        decode_tokens_per_s=_decode(metrics),
    )


def _decode(metrics: Metrics) -> Fact[float]:
    """By the mean time for each token, the first of every answer among them."""
    return metrics.rate("tgi_request_mean_time_per_token_duration", least=_ENOUGH_REQUESTS)


def _run(metrics: Metrics) -> Run:
    return Run(queue_s=metrics.ratio("tgi_request_queue_duration_sum", "tgi_request_queue_duration_count"))


def _split(value: knob.Setting, _wanted: Wanted) -> Answer:
    """Only every layer on all GPUs: one for none, else what the reader has."""
    if value is None:
        return Words(("shards",))
    count = "1" if value == "none" else str(value) if isinstance(value, int) and value > 0 else PLACE
    return Words(("shards",), ("--num-shard", count), missing=NO_GPUS if count == PLACE else "")


def _by_hand(sentence: str) -> str:
    return placed.labelled(placed.Place.HAND, sentence)


_CACHE_TYPES = {
    **dict.fromkeys(("f16", "bf16", "auto"), "auto"),
    **dict.fromkeys(("q8_0", "q4_0", "fp8", "fp8_e4m3fn"), "fp8_e4m3fn"),
    "fp8_e5m2": "fp8_e5m2",
}
_TURNS: Mapping[Knob, Turn] = {
    Knob.CONTEXT_LENGTH: number("context", "--max-total-tokens"),
    Knob.KV_CACHE_TYPE: cache_type("--kv-cache-dtype", _CACHE_TYPES, NAME),
    Knob.PARALLEL: number("sequences", "--max-concurrent-requests"),
    Knob.BATCH: number("batched_tokens", "--max-batch-prefill-tokens"),
    Knob.SPLIT_MODE: _split,
    Knob.GRAPHS: only_away("graphs"),
    Knob.SPECULATIVE: only_away("draft_tokens"),
    Knob.FIT_MARGIN: share("--cuda-memory-fraction", "memory_fraction"),
    Knob.CAPACITY: advice("--max-batch-total-tokens N", "--kv-cache-dtype fp8_e4m3fn", "--max-concurrent-requests N"),
    Knob.DEVICE: visible_device,
    Knob.QUANT: advice(_by_hand("give `--model-id` a checkpoint of this model as AWQ, GPTQ or FP8")),
    Knob.QUANT_KERNEL: advice(_by_hand("serve the same checkpoint with vLLM: its makers only keep TGI in repair")),
    Knob.VERSION: advice(
        _by_hand("serve the model with vLLM, SGLang or llama.cpp: its makers only keep TGI in repair")
    ),
}


def _bare(at_hand: AtHand) -> list[str]:
    return ["text-generation-launcher", *(["--model-id", at_hand.checkpoint] if at_hand.checkpoint else [])]


def _has_model(command: Sequence[str]) -> bool:
    return "model" in FLAGS.settings(command, {})


_PROGRAM = program_of(
    NAME,
    FLAGS,
    _TURNS,
    bare=_bare,
    has_model=_has_model,
    no_model="put `--model-id MODEL` into the line: which model it is, is not known",
)


def commands_for(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Commands:
    """One command line with all changes, and the way to start it by whoever starts it now."""
    return write_commands(_PROGRAM, changes, runtime, at_hand)


ENGINE = Engine(NAME, FLAGS, told, DIALECT, _LOG, _url_of, _asked, marked_variables=False)
read, read_url = ENGINE.read, ENGINE.read_url

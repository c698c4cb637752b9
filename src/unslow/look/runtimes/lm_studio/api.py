"""What LM Studio says of its loaded models: REST v1, or v0, and `lms` for what both leave out."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import Absence, Fact, Known, estimated_fact, failed_fact, not_found, reported_fact
from unslow.look.openai_api import OK, Server, json_if_ok
from unslow.look.server_answers import amount_fact, count_fact, objects_at, text_fact, truth_fact, value_at, word_at
from unslow.look.system import Answer, LookError, System

GREETING = "/lmstudio-greeting"
V1, V0 = "/api/v1/models", "/api/v0/models"
PROGRAM = "lms"
_PARAMETERS = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)\s*([BMT])\b")
_SCALES = {"M": 1e6, "B": 1e9, "T": 1e12}
_SELECTED = re.compile(r"(\S{1,120})@(\d[\w.+-]{0,40})\s+✓\s+(\S.{0,80})")
_GPU_WORDS = {"cuda": "CUDA", "rocm": "ROCm", "vulkan": "Vulkan", "metal": "Metal", "mlx": "MLX"}
_FOR_EVER_S = -1.0


class Instance(NamedTuple):
    """One loaded model; `id` names this load of it."""

    id: str
    runtime: Runtime
    model: Model
    size_bytes: Fact[int]
    format: str = ""  # gguf or mlx


class Lms(NamedTuple):
    """What the command line told."""

    loaded: Mapping[str, tuple[str, Runtime]] = {}
    """The path of each loaded model's file, below the folder of models, and its runtime; by the name of its load."""
    engines: dict[str, str] | None = None
    """The engine in use for each format of models: a name that holds its backend, and its version."""


def greets(server: Server) -> bool:
    """Whether LM Studio answers; LookError where nothing does."""
    return value_at(json_if_ok(server.ask(GREETING)), "lmstudio") is True


def parse_v1(data: Any, source: str) -> list[Instance] | None:
    """The loaded instances of language models; None where this is not such a list."""
    if not isinstance(value_at(data, "models"), list):
        return None  # older versions answer whatever they are asked with status 200 and an error
    models = [model for model in objects_at(data, "models") if word_at(model, "type") != "embedding"]
    pairs = [(model, loaded) for model in models for loaded in objects_at(model, "loaded_instances", most=64)]
    found = []
    for model, loaded in pairs:
        config, counted = loaded.get("config"), word_at(model, "params_string")
        amount = _PARAMETERS.search(counted)  # "7B" or "26B-A4B"
        parameters: Fact[int] = not_found(f"{source} does not count the parameters")
        if amount:
            about = round(float(amount[1]) * _SCALES[amount[2]])
            parameters = estimated_fact(about, f"{source}: {counted[:40]}")
        context = count_fact(config, source, "context_length")
        runtime = Runtime().with_facts(
            state=reported_fact("loaded", source),
            context_set=context,
            context_length=context,
            batch=count_fact(config, source, "eval_batch_size"),
            flash_attention=truth_fact(config, source, "flash_attention"),
            slots=count_fact(config, source, "parallel"),
            kv_offload=truth_fact(config, source, "offload_kv_cache_to_gpu"),
        )
        described = Model(
            name=text_fact(model, source, "key"),
            architecture=text_fact(model, source, "architecture"),
            quant=text_fact(model, source, "quantization", "name"),
            parameters=parameters,
            context_trained=count_fact(model, source, "max_context_length"),
            experts_used=count_fact(config, source, "num_experts"),
        )
        size, kind = count_fact(model, source, "size_bytes"), word_at(model, "format")
        found.append(Instance(word_at(loaded, "id") or word_at(model, "key"), runtime, described, size, kind))
    return found


def parse_v0(data: Any, source: str) -> list[Instance] | None:
    """The models that are loaded; None where this is not such a list."""
    if not isinstance(value_at(data, "data"), list):
        return None
    found = []
    for model in objects_at(data, "data"):
        if model.get("state") != "loaded" or model.get("type") == "embeddings":
            continue
        name, context = word_at(model, "id"), count_fact(model, source, "loaded_context_length")
        described = Model(
            name=text_fact(model, source, "id"),
            architecture=text_fact(model, source, "arch"),
            quant=text_fact(model, source, "quantization"),
            context_trained=count_fact(model, source, "max_context_length"),
        )
        runtime = Runtime(state=reported_fact("loaded", source))
        runtime = runtime.with_facts(context_set=context, context_length=context)
        unsized = not_found(f"{source} does not say how large the model is")
        found.append(Instance(name, runtime, described, unsized, word_at(model, "compatibility_type")))
    return found


def read_lms(system: System, port: int, homes: Sequence[str]) -> Lms:
    """What `lms`, its command line, tells of the server at a port; nothing where it is not installed.

    Most of its commands start the daemon where none runs. With `--port` they do not: they talk to the server at that
    port or end. So nothing is run here but with the port of a server that has just answered.
    """
    for program in (PROGRAM, *(f"{home}/bin/lms" for home in homes)):
        try:
            listed = _run(system, program, "ps", "--json", "--port", str(port))
        except LookError as error:
            if error.absence is Absence.NOT_FOUND:
                continue
            return Lms()
        engines = None
        with suppress(LookError):
            printed = _run(system, program, "runtime", "ls", "--port", str(port))
            engines = {  # those with a tick, by the formats that they read
                part.strip().casefold(): f"{engine}@{version}"
                for engine, version, formats in _SELECTED.findall(printed)
                for part in formats.split(",")
            }
        return Lms(parse_ps(listed, f"{PROGRAM} ps"), engines)
    return Lms()


def _run(system: System, program: str, *arguments: str) -> str:
    done = system.run([program, *arguments])
    if done.status:
        raise LookError(f"{PROGRAM} {arguments[0]} ended with status {done.status}")
    return done.stdout


def parse_ps(printed: str, source: str) -> dict[str, tuple[str, Runtime]]:
    """The models of `lms ps --json`; none where it printed anything else."""
    listed = json_if_ok(Answer(OK, printed[printed.find("[") :].encode()))
    found: dict[str, tuple[str, Runtime]] = {}
    for model in objects_at({"models": listed}, "models"):
        name, status = word_at(model, "identifier"), word_at(model, "status")
        if not name or word_at(model, "type") == "embedding":
            continue
        idle = amount_fact(model, source, "ttlMs")  # how long it stays after its last request; null is for ever
        idle = reported_fact(idle.value / 1000, source) if isinstance(idle, Known) else idle
        at_work = failed_fact(f'{source} says "{status[:40]}"')
        runtime = Runtime().with_facts(
            context_length=count_fact(model, source, "contextLength"),
            slots=count_fact(model, source, "parallel"),
            busy_slots=reported_fact(0, source) if status == "idle" else at_work,
            deferred_requests=count_fact(model, source, "queued"),
            keep_alive_s=reported_fact(_FOR_EVER_S, source) if model.get("ttlMs", 0) is None else idle,
        )
        found.setdefault(name, (word_at(model, "path"), runtime))
    return found


def backends_of(engine: str, source: str) -> Fact[list[str]]:
    """The backends that an engine has by its name, such as `llama.cpp-linux-x86_64-nvidia-cuda12-avx2`."""
    if not engine:
        return not_found(f"{source} shows no engine in use for this format")
    gpus = [name for part, name in _GPU_WORDS.items() if part in engine.casefold()]
    return estimated_fact([*gpus, "CPU"], f"{source}: {engine}")

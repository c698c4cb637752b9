"""Ollama's answers: /api/version, /api/ps and, for what is loaded, /api/show. None of them loads a model."""

import re
from typing import Any, NamedTuple

import msgspec

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import MIB, Fact, Known, estimated_fact, failed_fact, first_known, reported_fact
from unslow.look.command_line import is_absolute_path
from unslow.look.logs.ollama_options import option_facts
from unslow.look.openai_api import Server
from unslow.look.server_answers import count_fact, objects_at, text_fact, value_at, word_at
from unslow.look.system import try_fact, try_look

MOST_MODELS = 32
_LONGEST = 100_000
_NAME = re.compile(r"[\w./:-]{1,120}")
_FROM = re.compile(r"^FROM\s+(\S.{0,2000})$", re.MULTILINE)
_PARAMETER = re.compile(r"^(\w{2,30})\s+\"?([\w.-]{1,40})\"?\s*$", re.MULTILINE)
_SIZE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([KMBT])")
_POWERS = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_LAYER_COUNTS = {
    "layers": "block_count", "context_trained": "context_length", "width": "embedding_length",
    "heads": "attention.head_count", "kv_heads": "attention.head_count_kv", "key_length": "attention.key_length",
    "value_length": "attention.value_length", "experts": "expert_count", "experts_used": "expert_used_count",
    "expert_width": "expert_feed_forward_length", "vocabulary": "vocab_size",
}  # fmt: skip

_MODEL_FIELDS = (*_LAYER_COUNTS, "name", "path", "architecture", "quant", "parameters")


class LoadedModel(NamedTuple):
    """One model that the server has loaded, as its answers tell it."""

    name: str
    subject: Subject
    asked: Runtime  # What its Modelfile sets


def read_version(server: Server) -> Fact[str]:
    """The version of the server."""
    return try_fact(lambda: text_fact(server.json("/api/version"), f"{server.url}/api/version", "version"))


def read_loaded(server: Server) -> list[LoadedModel]:
    """The models that are loaded now; LookError where the server does not tell."""
    found = []
    for model in objects_at(server.json("/api/ps"), "models", most=MOST_MODELS):
        name = word_at(model, "name") or word_at(model, "model")
        shown = try_look(None, server.json, "/api/show", "POST", {"model": name})
        listed = parse_loaded(model, f"{server.url}/api/ps")
        described, asked = parse_shown(shown, f"{server.url}/api/show")
        merged = {f: first_known(getattr(described, f), getattr(listed.model, f)) for f in _MODEL_FIELDS}
        found.append(LoadedModel(name, Subject(runtime=listed.runtime, model=Model(**merged)), asked))
    return found


def read_names(server: Server) -> list[str]:
    """The models that it could load; none where it does not tell."""
    models = objects_at(try_look({}, server.json, "/api/tags"), "models", most=MOST_MODELS)
    # a name comes from whoever made the model, and is shown as part of a command
    return [name for model in models if _NAME.fullmatch(name := word_at(model, "name"))]


def parse_loaded(model: Any, source: str) -> Subject:
    """One entry of /api/ps: bytes that were planned, and the context of one request."""
    size, vram = count_fact(model, source, "size"), count_fact(model, source, "size_vram")
    context = count_fact(model, source, "context_length")
    share: Fact[float] = failed_fact(f"{source} does not report size_vram")
    if isinstance(vram, Known) and 0 < size.value_or(0) >= vram.value:
        share = estimated_fact(vram.value / size.value_or(0), f"{source}: size_vram / size, planned")
    runtime = Runtime(state=reported_fact("loaded", source)).with_facts(
        size_bytes=size,
        size_vram_bytes=vram,
        vram_share=share,
        context_per_slot=context if context.value_or(0) else failed_fact(f"{source} has no context: older than 0.9.6"),
    )
    quant, parameters = _details(model, source)
    described = Model(
        name=first_known(text_fact(model, source, "name"), text_fact(model, source, "model")),
        architecture=text_fact(model, source, "details", "family"),
        quant=quant,
        parameters=parameters,
    )
    return Subject(runtime=runtime, model=described)


def with_doubt(subject: Subject, warnings: list[str]) -> Subject:
    """Without the share, where Ollama had no sizes to go by: then it names those of the file as all on the GPU."""
    memory, weights = subject.runtime.memory, subject.model.weights_bytes
    size, vram = memory.size_bytes, memory.size_vram_bytes
    plain = isinstance(weights, Known) and isinstance(size, Known) and 0 <= size.value - weights.value < 64 * MIB
    said = any("no per-device buffer sizes were parsed" in warning for warning in warnings)
    if not said and not (plain and size == vram):
        return subject
    why = failed_fact("Ollama found no sizes in its llama-server's log and reports the file size instead")
    doubted = dict.fromkeys(("vram_share", "size_bytes", "size_vram_bytes"), why)
    return msgspec.structs.replace(subject, runtime=subject.runtime.with_facts(**doubted))


def parse_shown(shown: Any, source: str) -> tuple[Model, Runtime]:
    """What a model is by /api/show, and what its Modelfile sets."""
    info = value_at(shown, "model_info")
    kind = word_at(info, "general.architecture")
    facts: dict[str, Any] = {name: count_fact(info, source, f"{kind}.{key}") for name, key in _LAYER_COUNTS.items()}
    texts = (value_at(shown, name) for name in ("modelfile", "parameters"))
    modelfile, parameters = (text[:_LONGEST] if isinstance(text, str) else "" for text in texts)
    # comments of a Modelfile name other files
    base = _FROM.search("\n".join(line for line in modelfile.splitlines() if not line.startswith("#")))
    path = base[1].strip() if base else ""
    quant, about = _details(shown, source)
    model = Model(
        **facts,
        architecture=text_fact(info, source, "general.architecture"),
        quant=quant,
        parameters=first_known(count_fact(info, source, "general.parameter_count"), about),
        path=reported_fact(path, source) if is_absolute_path(path) else failed_fact(f"{source} names no file"),
    )
    options: dict[str, str] = dict(_PARAMETER.findall(parameters))
    return model, Runtime().with_facts(**option_facts(options, f"{source}: parameters"))


def _details(data: Any, source: str) -> tuple[Fact[str], Fact[int]]:
    """The quant of a model, and about how many parameters it has."""
    quant = text_fact(data, source, "details", "quantization_level")
    if quant.value_or("") == "unknown":
        quant = failed_fact(f"{source} does not know it")
    size = _SIZE.fullmatch(word_at(data, "details", "parameter_size"))
    if not size:
        return quant, failed_fact(f"{source} does not count them")
    return quant, estimated_fact(round(float(size[1]) * _POWERS[size[2]]), source)

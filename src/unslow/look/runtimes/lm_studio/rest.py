"""REST v1, and v0 where that is all there is: which models are loaded, and how."""

import re
from typing import Any, NamedTuple

import msgspec

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import Fact, Known, estimated, not_found, reported
from unslow.look.json_fields import at, count, objects, text, truth, word
from unslow.look.openai_api.server import Server, json_of
from unslow.look.system import LookError

GREETING = "/lmstudio-greeting"
V1, V0 = "/api/v1/models", "/api/v0/models"
_PARAMETERS = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)\s*([BMT])\b")
_SCALES = {"M": 1e6, "B": 1e9, "T": 1e12}


class Instance(NamedTuple):
    """One loaded model; `key` names the model, `id` this load of it."""

    id: str
    key: str
    runtime: Runtime
    model: Model
    size_bytes: Fact[int]
    format: str = ""
    """gguf or mlx."""


def greets(server: Server) -> bool:
    """Whether LM Studio answers; LookError where nobody does."""
    return at(json_of(server.ask(GREETING)), "lmstudio") is True


def read_instances(server: Server) -> list[Instance]:
    """The loaded models; LookError where neither version of the API tells."""
    newest = parse_v1(server.json(V1), f"{server.url}{V1}")
    if newest is not None:
        return newest
    older = parse_v0(server.json(V0), f"{server.url}{V0}")
    if older is None:
        raise LookError(f"{server.url}: neither {V1} nor {V0} lists models", how_to_get="update LM Studio")
    return older


def parse_v1(data: Any, source: str) -> list[Instance] | None:
    """The loaded instances of language models; None where this is no such list."""
    if not isinstance(at(data, "models"), list):
        return None  # older versions answer whatever they are asked with status 200 and an error
    models = [model for model in objects(data, "models") if word(model, "type") != "embedding"]
    return [_v1(model, loaded, source) for model in models for loaded in objects(model, "loaded_instances", most=64)]


def _v1(model: dict[str, Any], loaded: dict[str, Any], source: str) -> Instance:
    config, key = loaded.get("config"), word(model, "key")
    context = count(config, source, "context_length")
    runtime = Runtime(
        state=reported("loaded", source),
        context_set=context,
        context_length=context,
        batch=count(config, source, "eval_batch_size"),
        slots=count(config, source, "parallel"),
        flash_attention=truth(config, source, "flash_attention"),
        kv_offload=truth(config, source, "offload_kv_cache_to_gpu"),
    )
    described = Model(
        name=text(model, source, "key"),
        architecture=text(model, source, "architecture"),
        quant=text(model, source, "quantization", "name"),
        parameters=parse_parameters(word(model, "params_string"), source),
        context_trained=count(model, source, "max_context_length"),
        experts_used=count(config, source, "num_experts"),
    )
    size = count(model, source, "size_bytes")
    return Instance(word(loaded, "id") or key, key, runtime, described, size, word(model, "format"))


def parse_v0(data: Any, source: str) -> list[Instance] | None:
    """The models that are loaded; None where this is no such list."""
    if not isinstance(at(data, "data"), list):
        return None
    return [
        _v0(m, source) for m in objects(data, "data") if m.get("state") == "loaded" and m.get("type") != "embeddings"
    ]


def _v0(model: dict[str, Any], source: str) -> Instance:
    name = word(model, "id")
    context = count(model, source, "loaded_context_length")
    described = Model(
        name=text(model, source, "id"),
        architecture=text(model, source, "arch"),
        quant=text(model, source, "quantization"),
        context_trained=count(model, source, "max_context_length"),
    )
    runtime = Runtime(state=reported("loaded", source), context_set=context, context_length=context)
    unsized = not_found(f"{source} does not say how large the model is")
    return Instance(name, name, runtime, described, unsized, word(model, "compatibility_type"))


def parse_parameters(written: str, source: str) -> Fact[int]:
    """How many weights "7B" or "26B-A4B" means, about."""
    found = _PARAMETERS.search(written)
    if not found:
        return not_found(f"{source} does not count the parameters")
    return estimated(round(float(found[1]) * _SCALES[found[2]]), f"{source}: {written[:40]}")


def with_size(instance: Instance) -> Model:
    """The model with the size of its files, which may hold more than its weights: a projector for images."""
    if not isinstance(instance.size_bytes, Known):
        return instance.model
    size = estimated(instance.size_bytes.value, f"{instance.size_bytes.source}: size_bytes")
    return msgspec.structs.replace(instance.model, weights_bytes=size)

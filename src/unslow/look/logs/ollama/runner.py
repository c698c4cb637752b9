"""The command line with which Ollama starts what runs a model, as facts.

Since 0.30 that is llama-server, told only what a person set; before, it was Ollama's own runner, told everything that
Ollama had decided, and from 0.11 on often nothing at all: then the line `load request=` tells it.
"""

import re

from unslow.facts.values import Known, estimated, reported
from unslow.look.llama_server.arguments import spelled_flags
from unslow.look.llama_server.flags import OFF, ON
from unslow.look.logs.ollama.state import FactsByName

_COUNT = re.compile(r"\d{1,12}")
_COUNTS = {
    "context": ("context_length",),
    "slots": ("slots",),
    "batch": ("batch",),
    "ubatch": ("ubatch",),
    "threads": ("threads",),
    "main_gpu": ("main_gpu",),
}
_OWN_FLAGS = ("--model", "--port", "-c", "--ctx-size", "--n-gpu-layers", "--tensor-split")
"""The last two are Ollama's own reckoning before 0.30; since then a person's `num_gpu` is passed on as -ngl."""
_LONGEST_SETTINGS = 500
_REQUEST = {"Parallel": "slots", "BatchSize": "batch", "KvSize": "context_length", "NumThreads": "threads"}


def command_facts(command: str, where: str, *, is_server: bool) -> FactsByName:
    """The settings on a command line; `is_server` says that it starts llama-server."""
    words = command.split()
    given = {flag.name: flag.value for flag in spelled_flags(words)}
    facts = _counts(given, where)
    if "flash_attention" in given and given["flash_attention"] in (*ON, *OFF):
        facts["flash_attention"] = reported(given["flash_attention"] in ON, where)
    if kind := given.get("kv_type_k") or _value(words, "--kv-cache-type"):
        facts["kv_type_k"] = reported(kind, where)
        facts["kv_type_v"] = reported(given.get("kv_type_v") or kind, where)
    if "split_mode" in given:
        facts["split_mode"] = reported(given["split_mode"], where)
    if mode := _value(words, "--load-mode") or ("none" if "--no-mmap" in words else ""):
        facts["load_mode"] = reported(mode, where)
    if kind := _value(words, "--spec-type"):
        facts["speculative"] = reported(kind, where)
    facts |= _shares(given, where)
    facts |= _asked(given, where) if is_server else _decided(given, facts, where)
    return facts | _per_slot(facts, where)


def request_facts(request: str, where: str) -> FactsByName:
    """The settings in `{Operation:commit Parallel:1 FlashAttention:true KvSize:8192 KvCacheType:q8_0 ...}`."""
    given = dict(re.findall(r"\b([A-Z]\w{2,20}):([\w.-]*)", request))
    facts: FactsByName = {}
    for key, name in _REQUEST.items():
        value = given.get(key, "")
        if _COUNT.fullmatch(value) and int(value):
            facts[name] = reported(int(value), where)
    if (flash := given.get("FlashAttention", "").lower()) in ("true", "false", "enabled", "disabled"):
        facts["flash_attention"] = reported(flash in ("true", "enabled"), where)
    if "KvCacheType" in given:
        kind = given["KvCacheType"]
        fact = reported(kind, where) if kind else estimated("f16", f"{where}: no KvCacheType")
        facts["kv_type_k"] = facts["kv_type_v"] = fact
    layers = given.get("GPULayers", "")
    if layers.isdecimal() or "GPULayers:[]" in request:
        facts["gpu_layers"] = reported(int(layers or 0), where)
    if given.get("UseMmap") in ("true", "false"):
        facts["load_mode"] = reported("mmap" if given["UseMmap"] == "true" else "none", where)
    return facts | _per_slot(facts, where)


def model_path(command: str) -> str:
    """The file of the model; empty where the command names none."""
    return _value(command.split(), "--model").replace("\\\\", "\\")


def other_settings(command: str) -> str:
    """The flags of a command without the model, its context, and what Ollama decides anew for each process."""
    words = command.split()[1:]
    flags = [word for i, word in enumerate(words) if word not in _OWN_FLAGS and not (i and words[i - 1] in _OWN_FLAGS)]
    return " ".join(flags)[:_LONGEST_SETTINGS]


def _counts(given: dict[str, str], where: str) -> FactsByName:
    facts: FactsByName = {}
    for flag, names in _COUNTS.items():
        value = given.get(flag, "")
        if _COUNT.fullmatch(value):
            facts |= {name: reported(int(value), where) for name in names}
    return facts


def _asked(given: dict[str, str], where: str) -> FactsByName:
    """llama-server gets a number of layers only where a person set one; the context it always gets."""
    layers = given.get("gpu_layers", "")
    facts: FactsByName = {"gpu_layers_set": reported(int(layers), where)} if _COUNT.fullmatch(layers) else {}
    if _COUNT.fullmatch(given.get("context", "")):
        facts["context_set"] = reported(int(given["context"]), where)
    return facts


def _decided(given: dict[str, str], facts: FactsByName, where: str) -> FactsByName:
    """Ollama's own runner: what is not there is off, unless the command names no setting at all."""
    if "context" not in given:
        return {}
    layers = given.get("gpu_layers", "0")
    decided: FactsByName = {"gpu_layers": reported(int(layers), where)} if _COUNT.fullmatch(layers) else {}
    if "flash_attention" not in facts:
        decided["flash_attention"] = reported(value=False, source=f"{where}: no --flash-attn")
    if "kv_type_k" not in facts:
        decided["kv_type_k"] = decided["kv_type_v"] = estimated("f16", f"{where}: no --kv-cache-type")
    return decided


def _shares(given: dict[str, str], where: str) -> FactsByName:
    parts = given.get("tensor_split", "").split(",")
    if not all(re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", part) for part in parts):
        return {}
    return {"tensor_split": reported([float(part) for part in parts], where)}


def _per_slot(facts: FactsByName, where: str) -> FactsByName:
    """The context is given for all requests together."""
    if "context_length" not in facts or not facts.get("slots", Known(0, facts["context_length"].origin, "")).value:
        return {}
    return {"context_per_slot": reported(facts["context_length"].value // facts["slots"].value, where)}


def _value(words: list[str], flag: str) -> str:
    """The word after a flag."""
    at = words.index(flag) + 1 if flag in words else len(words)
    return words[at].strip('"') if at < len(words) else ""

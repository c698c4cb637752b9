"""Lines before a load: what was free, what was reckoned, which GPU was chosen, how many layers were to go there."""

import re

from unslow.facts.values import estimated, reported
from unslow.look.logs.go_values import all_sizes, size_bytes
from unslow.look.logs.ollama.server import see_device
from unslow.look.logs.ollama.slog import Line
from unslow.look.logs.ollama.state import Loading, Reading, Rule

_COUNT = re.compile(r"\d{1,6}")
_CONTEXTS = re.compile(r"--ctx-size[ =]((?:\d{3,8}\b(?:\s*(?:,|->|then|and|/)\s*(?:--ctx-size[ =])?)?){1,50})")


def _offload(reading: Reading, line: Line) -> bool:
    """The plan of Ollama before 0.12: layers, and what was reckoned against what was free."""
    fields = line.fields
    plan = {n: v for n, v in fields.items() if n.startswith(("layers.", "memory."))}
    if not plan:
        return False
    reading.is_ollama(line)
    kind = "offload" if "layers.offload" in fields or "layers.model" in fields else "memory"
    load = reading.load_with(kind, line)
    _planned_layers(load, fields, line.where)
    _planned_bytes(load, fields, line.where)
    weights = size_bytes(fields.get("memory.weights.total", ""))
    if weights:
        load.model["weights_bytes"] = estimated(weights, f"{line.where}: memory.weights.total")
    return True


def _planned_layers(load: Loading, fields: dict[str, str], where: str) -> None:
    """`layers.offload=44 layers.model=81`, or `layers.offload=49/63` in people's short way."""
    on_gpu, slash, whole = fields.get("layers.offload", "").partition("/")
    whole = fields.get("layers.model", whole if slash else "")
    if _COUNT.fullmatch(on_gpu):
        load.facts["gpu_layers"] = reported(int(on_gpu), where)
    if _COUNT.fullmatch(whole):
        load.facts["layers"] = reported(int(whole), where)
    asked = fields.get("layers.requested", "")
    if _COUNT.fullmatch(asked):
        load.facts["gpu_layers_set"] = reported(int(asked), where)
    split = re.findall(r"\d{1,5}", fields.get("layers.split", ""))
    if len(split) > 1:
        load.facts["tensor_split"] = reported([float(part) for part in split], where)


def _planned_bytes(load: Loading, fields: dict[str, str], where: str) -> None:
    """With `library=cpu` the memory that was free is the machine's, not a GPU's."""
    named = {
        "asked_bytes": "memory.required.full",
        "kv_bytes": "memory.required.kv" if "memory.required.kv" in fields else "kv",
        "size_bytes": "memory.required.full",
        "size_vram_bytes": "memory.required.partial",
    }
    for name, field in named.items():
        size = size_bytes(fields.get(field, ""))
        if size is not None:
            load.facts[name] = reported(size, f"{where}: {field}")
    free = all_sizes(fields.get("memory.available", ""))
    if free and fields.get("library") != "cpu" and "offload to cpu" not in fields.get("msg", ""):
        load.facts["available_bytes"] = reported(sum(free), f"{where}: memory.available")


def _gpu_memory(reading: Reading, line: Line) -> bool:
    """One line for each GPU that may be used; what a reserve leaves is less than what is free."""
    free = size_bytes(line.fields.get("free", line.fields.get("available", "")))
    name = line.fields.get("id", "")
    if free is None:
        return False
    reading.is_ollama(line)
    load = reading.load_with(f"gpu memory {name}", line)
    load.free[name] = free
    load.facts["available_bytes"] = reported(sum(load.free.values()), line.where)
    return True


def _will_fit(reading: Reading, line: Line) -> bool:
    load = reading.load_with("fit", line)
    for name, field in (("asked_bytes", "required"), ("available_bytes", "available")):
        size = size_bytes(line.fields.get(field, ""))
        if size is not None:
            load.facts.setdefault(name, reported(size, line.where))
    return True


def _selected(reading: Reading, line: Line) -> bool:
    """It took one GPU of several."""
    library = line.fields.get("library", "")
    if not library or "name" not in line.fields:
        return False
    reading.is_ollama(line)
    load = reading.load_with("select", line)
    load.facts["device_used"] = reported(see_device(reading, line), line.where)
    return True


def _contexts(reading: Reading, line: Line) -> bool:
    """`--ctx-size 8192, 2048, 8192` in people's short way: a load for each."""
    found = _CONTEXTS.search(line.text)
    if not found or "cmd" in line.fields:
        return False
    for number in re.findall(r"\d{3,8}", found[1]):
        load = reading.load_with("context", line)
        load.facts["context_length"] = reported(int(number), line.where)
    return True


RULES = (
    *(Rule(name, _offload) for name in ("layers.model", "layers.offload", "memory.available", "memory.required")),
    Rule('msg="gpu memory"', _gpu_memory),
    Rule("new model will fit", _will_fit),
    Rule("--ctx-size", _contexts),
    Rule("selecting ", _selected),
)

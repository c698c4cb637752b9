"""Lines of a starting server: its version and settings, the devices it found, the machine's memory and cores."""

import re
from typing import Any

import msgspec

from unslow.facts.runtime import SeenDevice
from unslow.facts.units import MIB
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.logs.go_values import seconds, size_bytes
from unslow.look.logs.ollama.slog import Line
from unslow.look.logs.ollama.state import KEPT_DEVICES, Reading, Rule
from unslow.look.processes import KEPT_VARIABLES

FOR_EVER = -1.0
_LISTENING = re.compile(r"Listening on (\S{1,80}) \(version ([\w.+-]{1,40})\)")
_VARIABLE = re.compile(r"\b([A-Z][A-Z0-9_]{2,40}):(\[[^\]]*\]|\S*)")
_LEFT_OUT = re.compile(r"KEY|TOKEN|SECRET|PASSW|ORIGINS|REMOTES")  # secrets, and lists of hosts
_COUNT = re.compile(r"\d{1,12}")
_UNSET = ("", "0", "false")  # stands there too where nobody set anything
_MOST_SECONDS = 1e8  # Go's longest duration stands for "for ever"


def _listening(reading: Reading, line: Line) -> bool:
    found = _LISTENING.search(line.text)
    if not found:
        return False
    reading.is_ollama(line)
    reading.process["version"] = reported(found[2], line.where)
    return True


def _config(reading: Reading, line: Line) -> bool:
    """The environment of the server, which is not that of anybody's shell."""
    reading.start_server()
    reading.is_ollama(line)
    given = {name: value.rstrip('"]') for name, value in _VARIABLE.findall(line.text)}
    named = {n: v for n, v in given.items() if n.startswith(KEPT_VARIABLES) and not _LEFT_OUT.search(n)}
    kept = {name: value for name, value in named.items() if value not in _UNSET}
    reading.process["environment"] = reported(kept, line.where)
    reading.process.update(variable_facts(kept, line.where))
    return True


def variable_facts(variables: dict[str, str], where: str) -> dict[str, Any]:
    """What the server's variables set; nought leaves the choice to Ollama."""
    facts: dict[str, Any] = {}
    for variable, name in (
        ("OLLAMA_NUM_PARALLEL", "slots"),
        ("OLLAMA_MAX_LOADED_MODELS", "max_loaded_models"),
        ("OLLAMA_CONTEXT_LENGTH", "context_default"),
    ):
        value = variables.get(variable, "")
        if _COUNT.fullmatch(value) and int(value):
            facts[name] = reported(int(value), f"{where}: {variable}")
    alive = keep_alive_s(variables.get("OLLAMA_KEEP_ALIVE", ""))
    if alive is not None:
        facts["keep_alive_s"] = reported(alive, f"{where}: OLLAMA_KEEP_ALIVE")
    margin = variables.get("LLAMA_ARG_FIT_TARGET", "")
    if _COUNT.fullmatch(margin):
        facts["fit_margin_bytes"] = reported(min(int(margin), 2**40) * MIB, f"{where}: LLAMA_ARG_FIT_TARGET")
    if (fit := variables.get("LLAMA_ARG_FIT", "").lower()) in ("on", "off", "1", "0", "true", "false"):
        facts["fit"] = reported(fit in ("on", "1", "true"), f"{where}: LLAMA_ARG_FIT")
    return facts


def keep_alive_s(text: str) -> float | None:
    """How long a model stays: a duration, a number of seconds, or for ever."""
    if re.fullmatch(r"-\d{1,12}(?:\.\d+)?\w{0,2}", text):
        return FOR_EVER
    value = float(text) if _COUNT.fullmatch(text) else seconds(text)
    if value is None:
        return FOR_EVER if text.startswith("2562047h") else None
    return FOR_EVER if value > _MOST_SECONDS else value


def _compute(reading: Reading, line: Line) -> bool:
    """One device that it could use, or that there is only the CPU."""
    fields = line.fields
    library = fields.get("library", "")
    if not library:
        return False
    reading.is_ollama(line)
    reading.devices_listed = reading.devices_listed or line.where
    if library != "cpu":
        see_device(reading, line)
    elif reading.refused is None:
        reading.refused = (2, reported("inference compute: library=cpu", line.where))
    return True


def see_device(reading: Reading, line: Line) -> str:
    """Add to what is known of a device; its name. Before 0.12.4 `name` was what is `description` now."""
    fields = line.fields
    name, description = fields.get("name", ""), fields.get("description") or _unquoted(line)
    if not re.fullmatch(r"[A-Za-z]+\d+", name):
        name, description = f"{fields.get('library', '')}{fields.get('id', '')}"[:80], description or name
    old = reading.devices.get(name, (SeenDevice(name=name), ""))[0]
    seen = msgspec.structs.replace(
        old,
        description=description or old.description,
        library=fields.get("library") or old.library,
        total_bytes=_size(fields, "total", line.where, old.total_bytes),
        free_bytes=_size(fields, "available", line.where, old.free_bytes),
        integrated=_integrated(fields, line.where, old.integrated),
        compute_capability=reported(fields["compute"], line.where) if fields.get("compute") else old.compute_capability,
    )
    if name in reading.devices or len(reading.devices) < KEPT_DEVICES:
        reading.devices[name] = (seen, line.where)
    return name


def _unquoted(line: Line) -> str:
    """What follows `name=CUDA0` where somebody copied the description without its name and quotes."""
    rest = re.search(r"\bname=[A-Za-z]+\d+ ([^=]{3,80}?)(?:\s\w+=|$)", line.text)
    return rest[1].strip() if rest else ""


def _size(fields: dict[str, str], name: str, where: str, otherwise: Fact[int] = NOT_LOOKED) -> Fact[int]:
    size = size_bytes(fields.get(name, ""))
    return otherwise if size is None else reported(size, where)


def _integrated(fields: dict[str, str], where: str, otherwise: Fact[bool]) -> Fact[bool]:
    if fields.get("type") in ("discrete", "iGPU"):
        return reported(fields["type"] == "iGPU", where)
    if fields.get("integrated") in ("true", "false"):
        return reported(fields["integrated"] == "true", where)
    return otherwise


def _default_context(reading: Reading, line: Line) -> bool:
    number = line.fields.get("default_num_ctx", "")
    if _COUNT.fullmatch(number):
        reading.process["context_default"] = reported(int(number), line.where)
    return True


def _system_memory(reading: Reading, line: Line) -> bool:
    for field, name in (("total", "total_bytes"), ("free", "available_bytes")):
        size = size_bytes(line.fields.get(field, ""))
        if size is not None:
            reading.memory[name] = reported(size, line.where)
    return True


def _cores(reading: Reading, line: Line) -> bool:
    """Windows only: `package=0 cores=16 efficiency=8 threads=24`."""
    numbers = {name: line.fields.get(name, "") for name in ("cores", "efficiency", "threads")}
    if not all(_COUNT.fullmatch(text) for text in numbers.values()):
        return False
    cores, efficiency, threads = (int(text) for text in numbers.values())
    if line.fields.get("package", "0") == "0":  # one of several sockets says nothing of the others
        reading.cpu["physical_cores"] = reported(cores, line.where)
        reading.cpu["logical_cpus"] = reported(threads, line.where)
        if efficiency:
            reading.cpu["efficiency_cores"] = reported(efficiency, line.where)
    return True


def _features(reading: Reading, line: Line) -> bool:
    """What the runner was built for: `CPU.0.AVX2=1 CUDA.0.ARCHS=860,890`, earlier `info="CPU : AVX2 = 1 | ..."`."""
    built = set(re.findall(r"\bCPU\.\d+\.(\w{2,20})=1\b", line.text))
    for section in re.findall(r"\bCPU : ([^:\"]{1,1000})", line.fields.get("info", "")):
        built |= set(re.findall(r"\b(\w{2,20}) = 1\b", section))
    if built:
        reading.process["build_features"] = reported(sorted(built), line.where)
    archs = re.search(r"\bARCHS ?= ?([\d,]{2,200})", line.text)
    if archs:
        reading.process["build_architectures"] = reported(archs[1].strip(",").split(","), line.where)
    threads = line.fields.get("threads", "")
    if _COUNT.fullmatch(threads):
        reading.load.facts["threads"] = reported(int(threads), line.where)
    return bool(built or archs)


def _model(reading: Reading, line: Line) -> bool:
    """`architecture=gemma3 file_type=Q4_K_M num_tensors=1247`, as Ollama's own engine prints it."""
    for field, name in (("architecture", "architecture"), ("file_type", "quant")):
        if value := line.fields.get(field, ""):
            reading.load.model[name] = reported(value[:40], line.where)
    return "architecture" in line.fields


RULES = (
    Rule("server config env=", _config),
    Rule('"server config" env=', _config),
    Rule("Listening on ", _listening),
    Rule("inference compute", _compute),
    Rule("vram-based default context", _default_context),
    Rule('msg="system memory"', _system_memory),
    Rule("efficiency=", _cores),
    Rule("msg=system ", _features),
    Rule("num_key_values=", _model),
)

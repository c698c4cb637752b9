"""Lines about memory: where the layers went, what was allocated, the caches."""

import re
from typing import Literal

from unslow.facts.runtime import Buffer
from unslow.facts.units import MIB
from unslow.facts.values import reported
from unslow.look.logs.llama_cpp.loads import Cache, SeenBuffer, keep
from unslow.look.logs.llama_cpp.start import is_gpu_name, see_backend
from unslow.look.logs.llama_cpp.state import Reading, Rule

Kind = Literal["model", "kv", "state", "compute", "output"]
_KINDS: dict[str, Kind] = {"KV": "kv", "RS": "state", "compute": "compute", "output": "output", "model": "model"}
_MOST_MIB = 2**39  # facts hold less than 2**60 bytes


def mib(text: str) -> int:
    """Bytes of a number of MiB as printed; 0 where it is no sensible number."""
    try:
        value = float(text)
    except ValueError:
        return 0
    return round(value * MIB) if 0 <= value < _MOST_MIB else 0


def _metadata(reading: Reading, found: re.Match[str], where: str) -> None:
    if reading.load.completions or reading.load.has_context(found[1]):
        reading.start_load(found.string, where)  # programs around llama.cpp do not say that they load
    reading.load.open_model(found[1])
    reading.load.where = reading.load.where or where
    if not reading.load.started_at:
        reading.read_clock(found.string)
        reading.load.started_at = reading.clock
    reading.load.current.model["path"] = reported(found[1], where)


def _repeating(reading: Reading, found: re.Match[str], _where: str) -> None:
    reading.load.current.repeating = int(found[1])


def _offloaded(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.placed = True
    model, counted = reading.load.current, int(found[1])
    runtime = model.runtime
    runtime["gpu_layers"], runtime["layers"] = reported(counted, where), reported(int(found[2]), where)
    if 0 < counted == model.repeating:  # all that are counted repeat, so the output is none of them
        runtime.setdefault("output_on_gpu", reported(value=False, source=where))


def _output(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.current.runtime["output_on_gpu"] = reported(found[1] != "CPU", where)


def _load_mode(reading: Reading, found: re.Match[str], where: str) -> None:
    mode = found[1] or {"true": "mmap", "1": "mmap"}.get(found[2], "none")
    reading.load.facts["load_mode"] = reported(mode, where)


def _override(reading: Reading, found: re.Match[str], where: str) -> None:
    """Tensors were sent elsewhere by name: by the user, or else by the fit, which says that it runs."""
    reading.load.current.overridden = True
    by_user = "already set" in found[0] or "fit" not in reading.load.facts
    tensor = f"{found[1]}=CPU" if found[1] else found[0]
    if by_user:
        reading.load.facts.setdefault("tensor_overrides", reported([tensor], where))


def _buffer(reading: Reading, found: re.Match[str], where: str) -> None:
    """The last line of a kind wins: a dry run and a second reservation print the same names before."""
    component, device, word, size = found.groups()
    kind = _KINDS[word] if word else "model"
    buffer = Buffer(device=device, kind=kind, bytes=mib(size), on_gpu=is_gpu_name(device))
    model = reading.load.current
    reading.load.placed = True
    see_backend(reading, device, where)
    if kind == "model":
        keep(model.weights, (component, device), SeenBuffer(buffer, where))
    else:
        section = model.context.section if kind == "kv" else ""
        keep(model.context.buffers, (component, section, device, kind), SeenBuffer(buffer, where))


def _section(reading: Reading, found: re.Match[str], _where: str) -> None:
    reading.load.current.context.section = found[1]


def _cache(reading: Reading, found: re.Match[str], where: str) -> None:
    context = reading.load.current.context
    size, cells, streams, type_k, type_v = found.groups()
    # the cells are those of one stream: without a unified cache every slot has a stream of its own
    keep(context.caches, context.section, Cache(mib(size), int(cells) * int(streams or 1), type_k, type_v, where))


def _old_cache(reading: Reading, found: re.Match[str], where: str) -> None:
    context = reading.load.current.context
    keep(context.caches, context.section, Cache(mib(found[1]), None, found[2], found[3], where))


RULES = (
    Rule(
        "loaded meta data ",
        re.compile(r"^.{0,200}?loaded meta data with .{0,60} tensors from (.{1,1000}?)(?: \(version .*)?$"),
        _metadata,
    ),
    Rule(" layers to GPU", re.compile(r"offloaded\s+(\d{1,12})/(\d{1,12})\s+layers to GPU"), _offloaded),
    Rule("repeating layers to GPU", re.compile(r"offloading (\d{1,9}) repeating layers to GPU"), _repeating),
    Rule("ing output layer to ", re.compile(r"offloading output layer to (GPU|CPU)"), _output),
    Rule("non-repeating layers to ", re.compile(r"offloading (non-repeating) layers to GPU"), _output),
    Rule("this can take a while", re.compile(r"\((?:load_mode = ([\w+]{1,20})|mmap = (\w{1,5}))"), _load_mode),
    Rule(
        "verrid",
        re.compile(
            r"(?:tensor ([\w.]{1,80}) .{0,80})?buffer type overrid\w+ to CPU"
            r"|tensor overrides to CPU|tensor_buft_overrides already set by user"
        ),
        _override,
    ),
    Rule(
        "buffer size",
        re.compile(
            r"\b(?=init:|\w*(?:load_tensors|llama|sched|alloc|clip))(\w+):\s+(\S+)\s+(?:(model|KV|RS|compute|output)\s+)?"
            r"buffer size\s*=\s*([\d.]+)\s*MiB"
        ),
        _buffer,
    ),
    Rule("SWA KV cache", re.compile(r"creating\s+((?:non-)?SWA) KV cache"), _section),
    Rule(
        " cells,",
        re.compile(
            r"llama_kv_cache\w{0,40}:\s+size\s*=\s*([\d.]+) MiB \(\s*(\d{1,9}) cells,"
            r"(?:[^)]{0,100}?/(\d{1,4}) seqs)?.{0,200}?K \((\w+)\):\s*[\d.]+ MiB, V \((\w+)\)"
        ),
        _cache,
    ),
    Rule(
        "KV self size",
        re.compile(r"KV self size\s*=\s*([\d.]+) MiB, K \((\w+)\):\s*[\d.]+ MiB, V \((\w+)\)"),
        _old_cache,
    ),
)

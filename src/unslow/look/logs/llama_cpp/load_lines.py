"""Lines of a load: what the fit moved, where the layers went, what was allocated, the context."""

import re
from functools import partial
from typing import Literal

import msgspec

from unslow.facts.runtime import Buffer
from unslow.facts.values import MIB, reported_fact
from unslow.look.logs.dialect import Rules
from unslow.look.logs.llama_cpp.start_lines import is_gpu_name, see_backend
from unslow.look.logs.llama_cpp.state import Cache, Context, ModelLoad, Reading, keep

RULES = Rules[Reading]()
Kind = Literal["model", "kv", "state", "compute", "output"]
_KINDS: dict[str, Kind] = {"KV": "kv", "RS": "state", "compute": "compute", "output": "output", "model": "model"}
_LEAVES = r"will leave \d+ >= (\d{1,12}) MiB of free device"  # everything fits as asked: the fit moves nothing
_PARAMETERS = {
    "n_ctx": "context_length",
    "n_ctx_seq": "context_per_slot",
    "n_ctx_per_seq": "context_per_slot",
    "n_batch": "batch",
    "n_ubatch": "ubatch",
    "n_seq_max": "slots",
}
_PARAMETER = "(n_seq_max|n_ctx|n_ctx_seq|n_ctx_per_seq|n_batch|n_ubatch|flash_attn|kv_unified)"
_CONTEXTS = ("llama_context", "llama_init_from_model", "llama_new_context_with_model", "llama_model_load_internal")
_MOST_DIGITS = 12  # so that every count fits its fact
_MOST_MIB = 2**39  # facts hold less than 2**60 bytes


@RULES("params_fit_impl: ", r"params_fit_impl: getting device memory data for initial")
@RULES("fitting params to ", r"fitting params to device memory(?: \.\.\.|, for bugs)")
def _fit_starts(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.load.facts["fit"] = reported_fact(value=True, source=where)
    reading.load.overflow.clear()


_note = partial(RULES.note, into="load.facts")
for _needle, _pattern in (
    ("cannot fulfill margin", r"cannot fulfill margin of (\d{1,12}) MiB"),  # `margin` until 2026
    ("cannot meet free memory target", r"memory targets? of (\d{1,12}) MiB"),
    ("will leave ", _LEAVES),
):
    _note("fit_margin_bytes", _needle, _pattern, lambda text: int(text) * MIB)
for _needle, _pattern in (
    ("can be met on all devices", "targets for free memory can be met on all devices"),
    ("will leave ", _LEAVES),
):
    RULES.note_value("overflowing_layers", _needle, _pattern, value=0, into="load.facts")
_note("gpu_layers_set", "set by user", r"n_gpu_layers already set by user to (\d{1,12})", int)
_note("context_set", "set by user", r"context size set by user to (\d{1,12})", int)
# What the fit estimated with the requested settings; later ones try others
_note(
    "asked_bytes available_bytes",
    "projected to use ",
    r"projected to use (\d{1,9}) MiB of device memory vs\. (\d{1,9}) MiB of free",
    lambda mib: int(mib) * MIB,
    first=True,
)


@RULES("context size reduced from", r"context size reduced from \d+ to \d+ -> need (\d{1,9}) MiB less memory")
def _cut_context(reading: Reading, found: re.Match[str], where: str) -> None:
    """A context that was not set is cut before any layer is: what is asked for is what is left then."""
    facts = reading.load.facts
    if "asked_bytes" in facts:
        left = facts["asked_bytes"].value - int(found[1]) * MIB
        facts["asked_bytes"] = reported_fact(max(0, left), where)


RULES("params_fit_impl: ", r"params_fit_impl:\s+-\s+(\S+) \(.+\):\s+\d+ layers(?: \(\s*(\d{1,12}) overflowing\))?,")(
    lambda reading, found, where: keep(reading.load.overflow, found[1], (int(found[2] or 0), where))
)


@RULES(
    "breakdown_print: | ",
    r"\|\s+- (\w{1,32}) \([^|]{1,100}\)\s*\|\s*\d{1,9} =\s*\d{1,9} \+ \([^()]{1,80}\) \+\s*(-?\d{1,9}) \|",
)
def _breakdown(reading: Reading, found: re.Match[str], where: str) -> None:
    """Printed at the end, and before the load for a model that is not there yet: only the first kind was seen."""
    if not reading.load.placed or found[1] not in reading.devices:
        return
    device, first = reading.devices[found[1]]
    left = int(found[2])
    if left >= 0:
        device = msgspec.structs.replace(device, unaccounted_bytes=reported_fact(left * MIB, where))
        reading.devices[found[1]] = (device, first)


@RULES("loaded meta data ", r"^.{0,200}?loaded meta data with .{0,60} tensors from (.{1,1000}?)(?: \(version .*)?$")
def _metadata(reading: Reading, found: re.Match[str], where: str) -> None:
    path = found[1]
    known = reading.load.models.get(path)  # loaded already, for real and to its end, if it has caches
    if reading.load.completions or (known and not known.dry and known.main_context().caches):
        reading.start_load(found.string, where)  # programs around llama.cpp do not say that they load
    load = reading.load
    # A file is read again after the fit's dry run (then the later one counts), or a draft beside the main one
    load.current = ModelLoad(path, model={"path": reported_fact(path, where)})
    keep(load.models, path, load.current)
    load.where = load.where or where
    if not load.started_at:
        reading.read_clock(found.string)
        load.started_at = reading.clock


@RULES(" layers to GPU", r"offloaded\s+(\d{1,12})/(\d{1,12})\s+layers to GPU")
def _offloaded_layers(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.load.placed = True
    model, counted = reading.load.current, int(found[1])
    runtime = model.runtime
    runtime["gpu_layers"], runtime["layers"] = reported_fact(counted, where), reported_fact(int(found[2]), where)
    if 0 < counted == model.repeating:  # all that are counted repeat, so the output is none of them
        runtime.setdefault("output_on_gpu", reported_fact(value=False, source=where))


@RULES("repeating layers to GPU", r"offloading (\d{1,9}) repeating layers to GPU")
def _repeating(reading: Reading, found: re.Match[str], _where: str) -> None:
    reading.load.current.repeating = int(found[1])


for _needle, _pattern in (
    ("non-repeating layers to ", r"offloading (non-repeating) layers to GPU"),
    ("ing output layer to ", r"offloading output layer to (GPU|CPU)"),
):
    RULES.note("output_on_gpu", _needle, _pattern, lambda place: place != "CPU", into="load.current.runtime")


@RULES("this can take a while", r"\((?:load_mode = ([\w+]{1,20})|mmap = (\w{1,5}))")
def _load_mode(reading: Reading, found: re.Match[str], where: str) -> None:
    mode = found[1] or {"true": "mmap", "1": "mmap"}.get(found[2], "none")
    reading.load.facts["load_mode"] = reported_fact(mode, where)


@RULES(
    "verrid",
    r"(?:tensor ([\w.]{1,80}) .{0,80})?buffer type overrid\w+ to CPU"
    r"|tensor overrides to CPU|tensor_buft_overrides already set by user",
)
def _override(reading: Reading, found: re.Match[str], where: str) -> None:
    """Tensors were sent elsewhere by name: by the user, or else by the fit, which says that it runs."""
    reading.load.current.overridden = True
    by_user = "already set" in found[0] or "fit" not in reading.load.facts
    tensor = f"{found[1]}=CPU" if found[1] else found[0]
    if by_user:
        reading.load.facts.setdefault("tensor_overrides", reported_fact([tensor], where))


@RULES(
    "buffer size",
    r"\b(?=init:|\w*(?:load_tensors|llama|sched|alloc|clip))(\w+):\s+(\S+)\s+(?:(model|KV|RS|compute|output)\s+)?"
    r"buffer size\s*=\s*([\d.]+)\s*MiB",
)
def _buffer(reading: Reading, found: re.Match[str], where: str) -> None:
    """The last line of a kind wins: a dry run and a second reservation print the same names before."""
    component, device, word, size = found.groups()
    kind = _KINDS[word] if word else "model"
    buffer = Buffer(device=device, kind=kind, bytes=parse_mib(size), on_gpu=is_gpu_name(device))
    model = reading.load.current
    reading.load.placed = True
    see_backend(reading, device, where)
    if kind == "model":
        keep(model.weights, (component, device), (buffer, where))
    else:
        section = model.context.section if kind == "kv" else ""
        keep(model.context.buffers, (component, section, device, kind), (buffer, where))


@RULES("SWA KV cache", r"creating\s+((?:non-)?SWA) KV cache")
def _section(reading: Reading, found: re.Match[str], _where: str) -> None:
    reading.load.current.context.section = found[1]


@RULES("KV self size", r"KV self size\s*=\s*(?P<size>[\d.]+) MiB, K \((?P<k>\w+)\):\s*[\d.]+ MiB, V \((?P<v>\w+)\)")
@RULES(
    " cells,",
    r"llama_kv_cache\w{0,40}:\s+size\s*=\s*(?P<size>[\d.]+) MiB \(\s*(?P<cells>\d{1,9}) cells,"
    r"(?:[^)]{0,100}?/(?P<streams>\d{1,4}) seqs)?.{0,200}?K \((?P<k>\w+)\):\s*[\d.]+ MiB, V \((?P<v>\w+)\)",
)
def _cache(reading: Reading, found: re.Match[str], where: str) -> None:
    context, said = reading.load.current.context, found.groupdict()
    # the cells are those of one stream: without a unified cache every slot has a stream of its own
    cells = int(said["cells"]) * int(said["streams"] or 1) if "cells" in said else None
    keep(context.caches, context.section, Cache(parse_mib(said["size"]), cells, said["k"], said["v"], where))


@RULES(tuple(f"{name}: " for name in _CONTEXTS), rf"\b(?:{'|'.join(_CONTEXTS)}):\s+{_PARAMETER}\s*=\s*(\S+)")
def _parameter(reading: Reading, found: re.Match[str], where: str) -> None:
    """A parameter seen twice belongs to the next context."""
    name, value = found[1], found[2]
    model = reading.load.current
    if name in model.context.parameters:
        model.largest, model.context = model.main_context(), Context()
    model.context.parameters.add(name)
    facts = model.context.facts
    if name in _PARAMETERS and value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS:
        facts[_PARAMETERS[name]] = reported_fact(int(value), where)
    elif name == "kv_unified":
        facts["kv_unified"] = reported_fact(value in ("true", "1"), where)
    elif name == "flash_attn" and value != "auto":
        facts["flash_attention"] = reported_fact(value in ("enabled", "1"), where)


_of_context = partial(RULES.note, into="load.current.context.facts")
for _needle, _pattern in (
    ("flash_attn ", r"enabling flash_attn since|flash_attn (?:requires|is not compatible).* forcing off"),
    (
        "Flash Attention ",
        r"Flash Attention (?:(?:was auto, set to )?enabled|(?:not supported|was auto), set to disabled)",
    ),
):
    _of_context("flash_attention", _needle, _pattern, lambda said: not said.endswith(("off", "disabled")))
# Those of one token at a time; prompts, which come first in the line, have more
_of_context(
    "graph_splits",
    "splits = ",
    r"\bsplits = (?:\d{1,12}(?: / | \(with bs=\d+\), (?=\d{1,12} \(with bs=1\))))?(\d{1,12})",
    int,
)


@RULES("n_slots = ", r"n_slots = (\d{1,12})(?:, n_ctx_slot = (\d{1,12}))?(?:.*kv_unified = '(\w+)')?")
def _slots(reading: Reading, found: re.Match[str], where: str) -> None:
    """The server's own count; n_seq_max can be larger."""
    facts = reading.load.facts
    facts["slots"] = reported_fact(int(found[1]), where)
    if found[2]:
        facts["context_per_slot"] = reported_fact(int(found[2]), where)
    if found[3]:
        facts["kv_unified"] = reported_fact(found[3] == "true", where)


def parse_mib(text: str) -> int:
    """Bytes of a number of MiB as printed; 0 where it is not a sensible number."""
    try:
        value = float(text)
    except ValueError:
        return 0
    return round(value * MIB) if 0 <= value < _MOST_MIB else 0

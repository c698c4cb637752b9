"""One pass over a log, and what it adds up to."""

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

from ahocorasick_rs import AhoCorasick

from unslow.facts.machine import Facts, Machine
from unslow.facts.masking import masked_text
from unslow.facts.model import Model
from unslow.facts.run import Completion
from unslow.facts.runtime import Buffer, Runtime, SeenDevice
from unslow.facts.values import NOT_LOOKED, Amount, Fact, Known, Unknown, estimated, not_found, reported
from unslow.look.logs.llama_cpp import complaints, context, fit, memory, model, outcome, requests, start, system_info
from unslow.look.logs.llama_cpp.loads import Context, FactsByName, Load, ModelLoad, SeenBuffer
from unslow.look.logs.llama_cpp.machine import machine_of
from unslow.look.logs.llama_cpp.state import KEPT_WARNINGS, Reading, Rule

LONGEST_LINE = 2000
_PARTS = (start, system_info, fit, model, memory, context, outcome, requests, complaints)
RULES: tuple[Rule, ...] = tuple(rule for part in _PARTS for rule in part.RULES)
_NEEDLES = tuple(dict.fromkeys(rule.needle for rule in RULES))
_OF_NEEDLE = tuple(tuple(n for n, rule in enumerate(RULES) if rule.needle == needle) for needle in _NEEDLES)
_FINDER = AhoCorasick(_NEEDLES)
HOW_TO_GET = "start llama-server with -lv 4: since b9151 it hides these lines by default"

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LOAD_LINES = (
    "context_length", "context_per_slot", "slots", "kv_unified", "kv_type_k", "kv_type_v", "kv_bytes", "kv_cells",
    "flash_attention", "batch", "ubatch", "threads", "gpu_layers", "layers", "graph_splits", "backends", "devices",
    "buffers",
)  # fmt: skip


class LlamaLog(Facts, frozen=True, kw_only=True):
    """What one log tells of its last load."""

    runtime: Runtime = Runtime()
    model: Model = Model()
    machine: Machine = Machine()
    """As the program saw it."""
    completions: Fact[tuple[Completion, ...]] = NOT_LOOKED
    load_s: Fact[Amount] = NOT_LOOKED
    rates: tuple[Fact[Amount], Fact[Amount]] = (NOT_LOOKED, NOT_LOOKED)
    """Of prompts and answers, where it prints no more than that."""
    decode_decay: Fact[Amount] = NOT_LOOKED
    recognised_lines: int = 0


def parse_log(lines: Iterable[str], source: str) -> LlamaLog:
    """Read a log line by line, in memory that does not grow with it; every fact names its line as `source:LINE`."""
    return _parse(((str(number), line) for number, line in enumerate(lines, 1)), source)


def parse_head_and_tail(head: str, tail: str, source: str) -> LlamaLog:
    """Read the two ends of a log too large to read whole; the last line of the tail is line -1."""
    last = tail.removesuffix("\n").split("\n")[1:]  # the first line of a tail is a part of one
    numbered_head = ((str(number), line) for number, line in enumerate(head.split("\n")[:-1], 1))
    numbered_tail = ((str(number - len(last)), line) for number, line in enumerate(last))
    return _parse(chain(numbered_head, numbered_tail), source)


def _parse(lines: Iterable[tuple[str, str]], source: str) -> LlamaLog:
    reading = Reading()
    for number, line in lines:
        read_line(reading, line, f"{source}:{number}")
    return summary(reading, source)


def read_line(reading: Reading, line: str, where: str) -> bool:
    """Take in one line; whether it is one that llama.cpp writes."""
    line = line[:LONGEST_LINE].rstrip()
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    known = False
    for rule in _rules_for(line):
        if found := rule.pattern.search(line):
            rule.take(reading, found, where)
            reading.recognised += 1
            reading.strong += not rule.weak
            known = True
    return known


def _rules_for(line: str) -> list[Rule]:
    """The rules whose needles the line holds, in their order; one search instead of a hundred."""
    needles = {needle for needle, _, _ in _FINDER.find_matches_as_indexes(line, overlapping=True)}
    return [RULES[number] for number in sorted(number for needle in needles for number in _OF_NEEDLE[needle])]


def summary(reading: Reading, source: str) -> LlamaLog:
    """What the lines so far add up to."""
    load = reading.load
    main = load.main_model()
    facts: dict[str, Any] = {
        **_missing(reading, source),
        **_placement(reading, main),
        **{name: fact for name, fact in load.facts.items() if name != "load_s"},
        **reading.process,
        **_outcome(reading, source),
        **_history(reading),
    }
    if reading.strong:
        facts["name"] = reported("llama.cpp", source)
    return LlamaLog(
        runtime=Runtime(**facts),
        model=Model(**main.model, **_token_table(load, main)),
        machine=machine_of(reading),
        completions=_completions(load, source),
        load_s=load.facts.get("load_s", not_found(f"{source} does not time the load")),
        rates=load.rates or (NOT_LOOKED, NOT_LOOKED),
        decode_decay=load.decay or NOT_LOOKED,
        recognised_lines=reading.recognised,
    )


def _history(reading: Reading) -> dict[str, Any]:
    """Loads before the last, complaints, and what was counted."""
    facts: dict[str, Any] = {name: reported(count, where) for name, (count, where) in requests.counted(reading)}
    if loads := reading.loads():
        facts["loads"] = reported(loads, loads[0].source)
    complaints = [complaint for kind in reading.warnings.values() for complaint in kind]
    if complaints:
        texts = [masked_text(text) for text, _ in complaints[:KEPT_WARNINGS]]
        facts["warnings"] = reported(texts, complaints[0][1])
    return facts


def _missing(reading: Reading, source: str) -> dict[str, Unknown]:
    """What a log could have said; more verbosity helps only where the lines were hidden."""
    if not reading.strong:
        return {}
    how = "" if reading.load.placed else HOW_TO_GET
    return {name: not_found(f"{source} has no line that says it", how) for name in _LOAD_LINES}


def _placement(reading: Reading, main: ModelLoad) -> dict[str, Any]:
    """Where things went: layers, caches, buffers, devices."""
    context = main.main_context()
    facts: dict[str, Any] = {**main.runtime, **context.facts, **_caches(context)}
    seen = [*main.weights.values(), *context.buffers.values()]
    if seen:
        facts["buffers"] = _buffers(seen)
    if reading.backends:
        first = next(iter(reading.backends.values()))
        facts["backends"] = reported(list(reading.backends), first)
    if reading.devices or reading.devices_listed:
        facts["devices"] = _devices(reading)
    if reading.load.overflow:
        where = next(iter(reading.load.overflow.values()))[1]
        facts["overflowing_layers"] = reported(sum(count for count, _ in reading.load.overflow.values()), where)
    return facts


def _devices(reading: Reading) -> Known[list[SeenDevice]]:
    where = next((where for _, where in reading.devices.values()), reading.devices_listed)
    return reported([device for device, _ in reading.devices.values()], where)


def _buffers(seen: list[SeenBuffer]) -> Known[list[Buffer]]:
    first, last = seen[0].where, seen[-1].where.rpartition(":")[2]
    return reported([buffer for buffer, _ in seen], f"{first} to {last}" if len(seen) > 1 else first)


def _caches(context: Context) -> FactsByName:
    """The sum of a model's caches; the types are those of the largest, the others stay f16 by llama.cpp's choice."""
    caches = list(context.caches.values())
    if not caches:
        return {}
    largest = max(caches, key=lambda cache: cache.bytes)
    facts: FactsByName = {
        "kv_bytes": reported(sum(cache.bytes for cache in caches), largest.where),
        "kv_type_k": reported(largest.type_k, largest.where),
        "kv_type_v": reported(largest.type_v, largest.where),
    }
    cells = [cache.cells for cache in caches if cache.cells is not None]
    if cells:
        facts["kv_cells"] = reported(max(cells), largest.where)  # a sliding window has fewer, whatever the context
    return facts


def _outcome(reading: Reading, source: str) -> dict[str, Any]:
    """What went wrong, or that nothing did."""
    load = reading.load
    facts: dict[str, Any] = {}
    state = load.facts.get("state", NOT_LOOKED).value_or("")
    if load.failure and state != "loaded":
        facts["allocation_failure"] = reported(load.failure, load.failure_where)
        facts["state"] = reported("failed", load.failure_where)
    elif reading.strong:
        facts["allocation_failure"] = not_found(f"no allocation failed in {source}")
    refused = reading.process.get("gpu_refused")
    # one backend of several may find nothing while another one drives the GPU
    if reading.strong and (refused is None or (reading.devices and "failed to initialize" not in refused.value)):
        facts["gpu_refused"] = not_found(f"{source} does not say that a GPU was refused")
    return facts


def _token_table(load: Load, main: ModelLoad) -> FactsByName:
    """With every layer on the GPU and nothing overridden, what stays on the host is the token table.

    It is never more than what the GPU holds: a larger part was sent to the host by a flag that the log does not name.
    """
    layers = main.runtime.get("layers")
    whole = layers is not None and main.runtime["gpu_layers"].value >= layers.value
    overflow = sum(count for count, _ in load.overflow.values())
    host = [(buffer, where) for buffer, where in main.weights.values() if not buffer.on_gpu]
    kept, on_gpu = (sum(b.bytes for b, _ in main.weights.values() if b.on_gpu is side) for side in (False, True))
    if not whole or overflow or main.overridden or not host or kept > on_gpu:
        return {}
    return {"token_table_bytes": estimated(kept, host[0][1])}


def _completions(load: Load, source: str) -> Fact[tuple[Completion, ...]]:
    if not load.completions:
        return not_found(f"{source} times no request")
    return reported(tuple(load.completions), load.completions_where)

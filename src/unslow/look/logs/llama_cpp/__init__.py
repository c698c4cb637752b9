"""The log of llama.cpp: llama-server, llama-cli, and whatever passes its lines on (Ollama, LM Studio, journals).

Lines are found by what they say, never by where they start: old and new builds, colours, timestamps and the prefixes of
journalctl or docker all read alike. Since b9151 most of these lines need `-lv 4`; a missing line is not evidence.
"""

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any

import msgspec
from ahocorasick_rs import AhoCorasick

from unslow.facts.machine import Facts, Machine
from unslow.facts.masking import masked_text
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Known, estimated_fact, not_found, reported_fact
from unslow.look.completion_summary import run_of_completions
from unslow.look.logs.dialect import LineDialect, LogFacts, needles_of
from unslow.look.logs.llama_cpp import load_lines, request_lines, start_lines
from unslow.look.logs.llama_cpp.request_lines import COUNTED
from unslow.look.logs.llama_cpp.start_lines import machine_of
from unslow.look.logs.llama_cpp.state import KEPT_WARNINGS, FactsByName, Load, ModelLoad, Reading

LONGEST_LINE = 2000
RULES = start_lines.RULES + load_lines.RULES + request_lines.RULES
"""In the order in which they are tried: the first that matches fills a fact first."""
_NEEDLES = needles_of(RULES)
_OF_NEEDLE = tuple(tuple(n for n, rule in enumerate(RULES) if needle in rule.needles) for needle in _NEEDLES)
_FINDER = AhoCorasick(_NEEDLES)
HOW_TO_GET = "start llama-server with -lv 4: since b9151 it hides these lines by default"
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CHATTY = (
    "eval time", "| new prompt, ", "all slots are idle", "top_k = ", "draft acceptance", "tg_3s", "slot context shift",
)  # fmt: skip
_TABLE = "breakdown_print: | "  # one at the end of each server, many while it looks for what fits
_LOAD_LINES = (
    "context_length", "context_per_slot", "slots", "kv_unified", "kv_type_k", "kv_type_v", "kv_bytes", "kv_cells",
    "flash_attention", "batch", "ubatch", "threads", "gpu_layers", "layers", "graph_splits", "backends", "devices",
    "buffers",
)  # fmt: skip


class LlamaLog(Facts, frozen=True, kw_only=True):
    """What one log tells of its last load."""

    runtime: Runtime = Runtime()
    model: Model = Model()
    machine: Machine = Machine()  # As the program saw it
    run: Run = Run()  # Its requests and the load; it does not say what else went on meanwhile
    recognised_lines: int = 0


class LlamaReader:
    """One pass over a text that holds lines of llama.cpp."""

    def __init__(self) -> None:
        self._reading = Reading()
        self._lines = 0

    def take(self, line: str, where: str) -> bool:
        known = read_line(self._reading, line, where)
        self._lines += known
        return known

    def skip(self, needle: str, count: int) -> None:
        """Lines of a kind that is counted are counted; the others repeat what was read."""
        if needle in COUNTED:
            self._reading.count(needle, count)
        self._lines += count

    def log_facts(self, source: str) -> LogFacts:
        """The last load, its requests, and the machine as llama.cpp saw it."""
        if not self._reading.recognised:
            return LogFacts()
        log = summary(self._reading.last_told(), source)
        subject = Subject(runtime=log.runtime, model=log.model, run=log.run)
        return LogFacts(machine=log.machine, subject=subject, lines=self._lines)


def parse_log(lines: Iterable[str], source: str) -> LlamaLog:
    """Read a log line by line, in memory that does not grow with it; every fact names its line as `source:LINE`."""
    reading = Reading()
    for number, line in enumerate(lines, 1):
        read_line(reading, line, f"{source}:{number}")
    return summary(reading, source)


def parse_head_and_tail(head: str, tail: str, source: str) -> LlamaLog:
    """Read the two ends of a log too large to read whole; the last line of the tail is line -1."""
    last = tail.removesuffix("\n").split("\n")[1:]  # the first line of a tail is a part of one
    reading = Reading()
    for number, line in chain(enumerate(head.split("\n")[:-1], 1), enumerate(last, -len(last))):
        read_line(reading, line, f"{source}:{number}")
    return summary(reading, source)


def read_line(reading: Reading, line: str, where: str) -> bool:
    """Take in one line; whether it is one that llama.cpp writes."""
    line = line[:LONGEST_LINE].rstrip()
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    known = False
    needles = {needle for needle, _, _ in _FINDER.find_matches_as_indexes(line, overlapping=True)}
    for number in sorted({number for needle in needles for number in _OF_NEEDLE[needle]}):
        rule = RULES[number]
        if found := rule.pattern.search(line):
            rule.take(reading, found, where)
            reading.recognised += 1
            reading.strong += rule.own
            known = True
    return known


def summary(reading: Reading, source: str) -> LlamaLog:
    """What the lines so far add up to."""
    load = reading.load
    main = load.main_model()
    facts: dict[str, Any] = {}
    if reading.strong:  # what a log could have said; more verbosity helps only where the lines were hidden
        missing = not_found(f"{source} has no line that says it", "" if load.placed else HOW_TO_GET)
        facts = dict.fromkeys(_LOAD_LINES, missing)
    facts |= _placement(reading, main)
    facts |= {name: fact for name, fact in load.facts.items() if name != "load_s"}
    # Layers that stay off although the fit says that it moves none
    counted, of_all, unmoved = facts.get("gpu_layers"), facts.get("layers"), load.facts.get("overflowing_layers")
    if isinstance(counted, Known) and isinstance(of_all, Known) and unmoved and counted.value < of_all.value:
        decided = f"{counted.source}, and the fit moved no layer ({unmoved.source}): a setting did"
        facts.setdefault("gpu_layers_set", estimated_fact(counted.value, decided))
    facts |= reading.process
    facts |= _outcome(reading, source)
    counts = ((fact, *reading.counts.get(needle, (0, ""))) for needle, fact in COUNTED.items())
    facts |= {fact: reported_fact(count, where) for fact, count, where in counts if where}
    if loads := reading.loads():
        facts["loads"] = reported_fact(loads, loads[0].source)
    if complaints := [complaint for kind in reading.warnings.values() for complaint in kind]:
        texts = [masked_text(text) for text, _ in complaints[:KEPT_WARNINGS]]
        facts["warnings"] = reported_fact(texts, complaints[0][1])
    if reading.strong:
        facts["name"] = reported_fact("llama.cpp", source)
    return LlamaLog(
        runtime=Runtime().with_facts(**facts),
        model=Model(**main.model, **_token_table(load, main)),
        machine=machine_of(reading),
        run=_run(load, source),
        recognised_lines=reading.recognised,
    )


def _placement(reading: Reading, main: ModelLoad) -> dict[str, Any]:
    context = main.main_context()
    facts: dict[str, Any] = {**main.runtime, **context.facts}
    # The sum of a model's caches; the types are those of the largest, the others stay f16 by llama.cpp's choice
    if caches := list(context.caches.values()):
        largest = max(caches, key=lambda cache: cache.bytes)
        facts |= {
            "kv_bytes": reported_fact(sum(cache.bytes for cache in caches), largest.where),
            "kv_type_k": reported_fact(largest.type_k, largest.where),
            "kv_type_v": reported_fact(largest.type_v, largest.where),
        }
        if cells := [cache.cells for cache in caches if cache.cells is not None]:
            facts["kv_cells"] = reported_fact(max(cells), largest.where)  # a sliding window has fewer in any context
    if seen := [*main.weights.values(), *context.buffers.values()]:
        first, last = seen[0][1], seen[-1][1].rpartition(":")[2]
        where = f"{first} to {last}" if len(seen) > 1 else first
        facts["buffers"] = reported_fact([buffer for buffer, _ in seen], where)
    if reading.backends:
        facts["backends"] = reported_fact(list(reading.backends), next(iter(reading.backends.values())))
    if reading.devices or reading.devices_listed:
        where = next((where for _, where in reading.devices.values()), reading.devices_listed)
        facts["devices"] = reported_fact([device for device, _ in reading.devices.values()], where)
    if overflow := list(reading.load.overflow.values()):
        facts["overflowing_layers"] = reported_fact(sum(count for count, _ in overflow), overflow[0][1])
    return facts


def _outcome(reading: Reading, source: str) -> dict[str, Any]:
    load = reading.load
    facts: dict[str, Any] = {}
    state = load.facts.get("state", NOT_LOOKED).value_or("")
    if load.failure and state != "loaded":
        facts["allocation_failure"] = reported_fact(load.failure, load.failure_where)
        facts["state"] = reported_fact("failed", load.failure_where)
    elif reading.strong:
        facts["allocation_failure"] = not_found(f"no allocation failed in {source}")
    refused = reading.process.get("gpu_refused")
    # one backend of several may find nothing while another one drives the GPU
    if reading.strong and (refused is None or (reading.devices and "failed to initialize" not in refused.value)):
        facts["gpu_refused"] = not_found(f"{source} does not report a rejected GPU")
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
    return {"token_table_bytes": estimated_fact(kept, host[0][1])}


def _run(load: Load, source: str) -> Run:
    load_s = load.facts.get("load_s", not_found(f"{source} has no load time"))
    if load.completions:
        done = reported_fact(tuple(load.completions), load.completions_where)
        return msgspec.structs.replace(run_of_completions(done, load_s), decode_decay=load.decay or NOT_LOOKED)
    untimed = not_found(f"{source} has no request timings")
    prefill, decode = load.rates or (NOT_LOOKED, untimed)  # where it prints no more than that
    return Run(completions=untimed, decode_tokens_per_s=decode, prefill_tokens_per_s=prefill, load_s=load_s)


DIALECT = LineDialect(_NEEDLES, LlamaReader, chatty=frozenset({*_CHATTY, _TABLE}))

"""Which facts of a slow instance are unlike those of its healthy peers, the most telling first, in words.

A fact tells where the peers agree with one another and the odd one is far off them, in the direction that is worse
where there is one. What names an instance, and what is a consequence of being slow, is no reason.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from unslow.facts.runtime import short_path
from unslow.facts.values import GIB, NOT_LOOKED, Known, Unknown
from unslow.fleet.report import Difference, Instance
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.report import Scalar

WORSE = {
    "clock_hz": -1, "clock_max_hz": -1, "memory_clock_hz": -1, "memory_clock_max_hz": -1, "frequency_hz": -1,
    "frequency_max_hz": -1, "frequency_limit_hz": -1, "temperature_c": 1, "temperature_max_c": 1,
    "memory_temperature_c": 1, "temperature_margin_c": -1, "power_limit_w": -1, "power_limit_default_w": -1,
    "pcie_generation": -1, "pcie_width": -1, "pcie_generation_max": -1, "pcie_width_max": -1,
    "pcie_generation_max_seen": -1, "pcie_width_max_seen": -1, "nvlinks_active": -1,
    "vram_total_bytes": -1, "vram_free_bytes": -1, "vram_used_bytes": 1, "vram_used_max_bytes": 1,
    "gtt_used_bytes": 1, "shared_used_bytes": 1, "others_busy": 1,
    "busy_cpus": 1, "average_1min": 1, "cpu_pressure": 1, "memory_pressure": 1, "io_pressure": 1,
    "others_cpus": 1, "waiting_for_cpu_s_per_token": 1, "cpu_throttled_fraction": 1, "throttled_s": 1,
    "throttled_periods": 1, "package_throttles": 1, "logical_cpus": -1, "physical_cores": -1, "allowed_cpus": -1,
    "quota_cpus": -1, "total_bytes": -1, "available_bytes": -1, "limit_bytes": -1, "memory_limit_bytes": -1,
    "swap_used_bytes": 1, "swapped_in_bytes": 1, "swapped_out_bytes": 1,
    "preemptions": 1, "cache_used": 1, "kv_usage": 1, "prefix_hit_rate": -1, "draft_acceptance": -1,
    "kv_capacity_tokens": -1, "kv_bytes": -1, "prompts_reprocessed": 1, "longest_sequence": 1, "depth_tokens": 1,
    "logged_prompts": 1, "gpu_layers": -1, "vram_share": -1, "disk_read_bytes": 1,
    "read_bytes_per_s": -1, "read_now_bytes_per_s": -1,
}  # fmt: skip
"""By the last word of the path: 1 where more of it is worse, -1 where less is. Cooler than its peers is no reason."""
_EFFECTS = frozenset({
    "busy", "memory_busy", "power_w", "power_max_w", "samples", "performance_state", "event_reason_bits",
    "pcie_transmit_bytes_per_s", "pcie_receive_bytes_per_s",
    "decode_tokens_per_s", "prefill_tokens_per_s", "client_decode_tokens_per_s", "time_to_first_token_s",
    "queue_s", "request_s", "own_cpus", "running", "waiting", "running_requests", "busy_slots", "deferred_requests",
    "tokens_per_s", "prompt_tokens_per_s", "each_tokens_per_s", "each_among", "each_prompt_tokens_per_s",
    "looks", "seconds", "counts_waiting", "decode_decay", "load_s", "thinking_tokens", "answer_tokens",
})  # fmt: skip
"""What an instance does and how busy it is: a slow one differs in it because it is slow."""
_IDENTITY = frozenset({
    "pid", "url", "log_path", "log_level", "bus_id", "index", "path", "device", "front", "embedded", "made_up",
    "metrics_endpoint",
})  # fmt: skip
_NOT_A_REASON = frozenset({"runtime.name", "model.name", "model.metadata", "machine.system.container"})
"""What groups instances, and what tells where they are."""
_OF_GPUS = {
    "power_limit_w": "gpu_power_capped", "power_limit_default_w": "gpu_power_capped",
    "temperature_c": "gpu_thermal_throttling", "temperature_max_c": "gpu_thermal_throttling",
    "memory_temperature_c": "gpu_thermal_throttling", "temperature_margin_c": "gpu_thermal_throttling",
    "clock_hz": "gpu_held_at_low_clocks", "clock_max_hz": "gpu_held_at_low_clocks",
    "memory_clock_hz": "gpu_held_at_low_clocks", "pcie_width": "pcie_link_degraded",
    "pcie_generation": "pcie_link_degraded", "pcie_width_max_seen": "pcie_link_degraded",
    "pcie_generation_max_seen": "pcie_link_degraded", "others_busy": "gpu_shared_with_other_work",
    "vram_free_bytes": "other_process_holds_vram",
}  # fmt: skip
"""Causes by a fact of a GPU: they declare the list of GPUs as a whole."""
_DECIDES = {
    "machine.load.busy_cpus": "cpu_contended", "machine.load.cpu_pressure": "cpu_contended",
    "machine.load.average_1min": "cpu_contended", "machine.load.memory_pressure": "swapping",
    "machine.memory.swapped_in_bytes": "swapping", "machine.memory.swapped_out_bytes": "swapping",
    "machine.cpu.package_throttles": "cpu_clock_limited", "machine.cpu.temperature_c": "cpu_clock_limited",
    "run.traffic.preemptions": "kv_cache_preemption", "run.traffic.cache_used": "kv_cache_preemption",
    "runtime.cache.prefix_hit_rate": "prompt_reprocessed", "runtime.version": "runtime_version_regressed",
}  # fmt: skip
"""Causes by a fact that they read beside those that they declare."""
MOST_DECLARING = 3
"""Causes that declare a fact: what more of them ask for, such as the list of GPUs, says little of any one."""
_NUMBER = re.compile(r"\.\d+(?=\.)")
AGREE = 0.8  # Of the peers: in what fewer of them agree, another value says nothing
NEARLY_NONE = 0.1
"""Of the peers: that many may have the value of the odd one, by the same fault that does not hurt them."""
KNOWN = 0.5  # Of the peers: of fewer, what the others have is not known
FAR = 0.12  # Of a number: nearer than that is as good as the same
DEVIATIONS = 5.0
"""Of the usual spread among the peers: dozens of facts are held against one another, and one is always a little off."""
_OF_MEDIAN = 1.4826
LEAST_PEERS = 4
MOST_PEERS = 256  # Peers that one is held against: more don't make it sharper
_FLOORS = {"_bytes": 256 * 1024**2, "_c": 8.0, "_cpus": 1.0, "_1min": 1.0}
"""By unit, what is too little to slow anything: a quarter of a GiB, what two rooms differ in, a processor."""
SHARES = ("_rate", "_usage", "_used", "_fraction", "_pressure", "_share", "_busy", "_acceptance")
"""How names of shares of one end."""
_SHARE_FLOOR = 0.10  # Of what is a share of one
_LEAST_COUNT = 0.5  # Of what is counted in whole numbers: one more is another number
MOST_SHOWN = 5
_CITED, _DECISIVE = 4.0, 2.0
"""How far what a finding gives as evidence, and what decides a cause, comes before the rest: by more than being far off
and being agreed upon can make up for."""
_FARTHEST = 4.0  # Doublings of the usual spread, beyond which farther off says no more
_FOLLOWS = {"event_reasons": 3.0, "clock_hz": 3.5}
"""What mostly follows from another fact, such as a power limit or heat, that is then to be named before it."""
_ALIKE = {
    "kv_usage": "cache_used", "temperature_max_c": "temperature_c", "vram_used_max_bytes": "vram_free_bytes",
    "vram_used_bytes": "vram_free_bytes", "pcie_width_max_seen": "pcie_width", "event_reasons": "event_reasons",
    "pcie_generation_max_seen": "pcie_generation", "clock_hz": "clock_hz", "preemptions": "preemptions",
    "quota_cpus": "quota_cpus", "allowed_cpus": "allowed_cpus", "context_set": "context_length",
    "context_per_slot": "context_length",
}  # fmt: skip
"""By the last word: one thing that is told in several places, or from two sides. It is shown where it tells most."""
Facts = Mapping[str, tuple[str, Scalar]]
"""Of one instance, by path without numbers of GPUs: the path itself, and the value."""


class Usual(NamedTuple):
    """What healthy peers have of one fact."""

    value: Scalar
    share: float  # Of them that agree
    spread: float  # Of numbers, how far off one may be by chance; 0 of names
    low: float
    high: float  # Between which all but a few of them lie
    others: Mapping[Scalar, float]  # Of names, the share that has each


def differences(odd: Instance, facts: Facts, usual: Mapping[str, Usual], shared: Mapping[str, int]) -> list[Difference]:
    """In what the odd one is unlike its peers; `shared` counts by path how many odd ones are."""
    # The causes by the facts that findings give as evidence
    cited = {plain_path(e.fact): f.cause for f in reversed(odd.findings) for e in f.evidence}
    sources = {plain_path(e.fact): e.source for f in odd.findings for e in f.evidence}
    off = [path for path, one in usual.items() if path in facts and is_deviating(path, facts[path][1], one)]
    off.sort(key=lambda path: (-_relevance(path, facts[path][1], usual[path], shared, cited), short_path(path)))
    # The first of each kind of fact
    last_words = ((path, _last_word(path)) for path in off)
    kinds = {path: _ALIKE.get(last, last if last in _ALIKE.values() else path) for path, last in last_words}
    first = {kinds[path]: path for path in reversed(off)}
    return [
        Difference(
            fact=facts[path][0],
            value=facts[path][1],
            peers=usual[path].value,
            share=usual[path].share,
            explains=cited.get(path) or decided_cause(path),
            source=sources.get(path, ""),
        )
        for path in [path for path in off if first[kinds[path]] == path][:MOST_SHOWN]
    ]


def _last_word(path: str) -> str:
    return short_path(path).rpartition(".")[2]


def is_deviating(path: str, value: Scalar, usual: Usual) -> bool:
    """Whether the value of an instance is far from what its peers have, in a direction that can hurt."""
    if not isinstance(usual.value, int | float) or isinstance(usual.value, bool):
        return value != usual.value and usual.others.get(value, 0.0) <= NEARLY_NONE
    if isinstance(value, str | bool):
        return False
    off = value - float(usual.value)
    way = WORSE.get(_last_word(path), 0)
    return abs(off) > usual.spread and not usual.low <= value <= usual.high and (way == 0 or off * way > 0)


def _relevance(path: str, value: Scalar, usual: Usual, shared: Mapping[str, int], cited: Mapping[str, str]) -> float:
    """How much a difference says: what a finding cites before what decides a cause, then how far off it is."""
    weight = _CITED if path in cited else _DECISIVE if decided_cause(path) else 0.0
    far = 1.0
    if usual.spread and isinstance(value, int | float):
        far = min(1.0, math.log2(abs(value - float(usual.value)) / usual.spread) / _FARTHEST)
    follows = _FOLLOWS.get(_last_word(path), 0.0)
    several = 0.0 if follows else math.log2(shared.get(path, 1)) / 2.0  # what follows is shared with its reason
    return weight - follows + far + usual.share + several


def usual_facts(peers: Sequence[Mapping[str, Scalar]]) -> dict[str, Usual]:
    """By path, what the peers have in common; facts in which they don't agree, or that few tell, are not there."""
    chosen = peers[:: max(1, math.ceil(len(peers) / MOST_PEERS))]
    columns: dict[str, list[Scalar]] = {}
    for facts in chosen:
        for path, (_, value) in comparable_facts(facts).items():
            columns.setdefault(path, []).append(value)
    enough = max(LEAST_PEERS, KNOWN * len(chosen))
    found = {path: _usual_value(path, column) for path, column in columns.items() if len(column) >= enough}
    return {path: usual for path, usual in found.items() if usual and usual.share >= AGREE}


def _usual_value(path: str, column: list[Scalar]) -> Usual | None:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in column):
        numbers = np.array(column, dtype=np.float64)
        numbers = numbers[np.isfinite(numbers)]
        if len(numbers) < LEAST_PEERS:
            return None
        middle = float(np.median(numbers))
        off, last = np.abs(numbers - middle), _last_word(path)
        floor = next((floor for unit, floor in _FLOORS.items() if last.endswith(unit)), _LEAST_COUNT)
        floor = _SHARE_FLOOR if last == "busy" or last.endswith(SHARES) else floor
        spread = max(DEVIATIONS * _OF_MEDIAN * float(np.median(off)), FAR * abs(middle), floor)
        low, high = np.quantile(numbers, [NEARLY_NONE / 2, 1 - NEARLY_NONE / 2])
        return Usual(middle, float(np.mean(off <= spread)), spread, float(low), float(high), {})
    if any(isinstance(value, float) for value in column):
        return None  # names and measurements under one path: nothing to compare
    shares = {value: count / len(column) for value, count in Counter(column).most_common()}
    value, share = next(iter(shares.items()))
    return Usual(value, share, 0.0, 0.0, 0.0, shares)


def comparable_facts(facts: Mapping[str, Scalar]) -> Facts:
    """Those that can be a reason for being slow."""
    plain = ((plain_path(path), path, value) for path, value in facts.items())
    return {name: (path, value) for name, path, value in plain if can_be_a_reason(name)}


@cache
def plain_path(path: str) -> str:
    """The path without numbers of GPUs: what is held against one another is a fact of whichever GPU."""
    return _NUMBER.sub("", path)


@cache
def can_be_a_reason(plain: str) -> bool:
    """Whether a difference in this fact can be why an instance is slow: no name, no address, no effect of slowness."""
    last = _last_word(plain)
    return last not in _EFFECTS and last not in _IDENTITY and plain not in _NOT_A_REASON


@cache
def decided_cause(plain: str) -> str:
    """The cause that this fact decides; empty where none does, or several."""
    of_gpus = _OF_GPUS if ".gpus." in plain else {}
    if cause := of_gpus.get(plain.rpartition(".")[2]) or _DECIDES.get(plain):
        return cause
    declaring = _causes_by_fact().get(plain, ())
    return declaring[0] if 0 < len(declaring) <= MOST_DECLARING else ""


@cache
def _causes_by_fact() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for name, cause in all_causes().items():
        for need in cause.needs:
            for path in (need,) if isinstance(need, str) else need:
                found.setdefault(plain_path(path), {})[name] = None
    return {path: tuple(names) for path, names in found.items()}


PARTS = ("machine", "runtime", "model", "run")
"""Of a case: what a person tells and what was measured earlier is of no instance of a fleet."""
LONGEST_TEXT = 160
"""Of a value; a longer one, such as a list of instruction sets, differs within it or is too much to read."""
MOST_FACTS = 400
MOST_GPUS = 64
_FOLDED = ("machine.gpus", "run.gpus")
"""Lists of GPUs: of each fact the GPU that is worst off speaks, since all others wait for it."""
_LEFT_OUT = frozenset({
    "machine.disks", "machine.load.busiest", "model.metadata", "model.tensors", "run.busiest_others",
    "run.completions", "run.depths", "run.at_once", "run.routes", "run.telemetry", "run.turns", "run.earlier",
    "run.traffic.prompts", "runtime.memory.buffers", "runtime.placement.devices", "runtime.history.loads",
    "runtime.process.command", "runtime.process.environment", "runtime.history.warnings",
    "runtime.process.bytes_by_node", "machine.gpus.processes",
})  # fmt: skip
"""What is a list of things and no value, or names and addresses."""


def flat_facts(case: CaseView) -> dict[str, Scalar]:
    """Every known fact that may be a reason for its speed; of several GPUs the worst value, under that GPU's number."""
    facts = [fact for part in PARTS for fact in _facts_of(getattr(case, part), part)]
    return dict(facts[:MOST_FACTS])


def _facts_of(struct: msgspec.Struct, path: str) -> list[tuple[str, Scalar]]:
    found: list[tuple[str, Scalar]] = []
    for name, below in _fields(type(struct), path):
        value: Any = getattr(struct, name)
        if value is NOT_LOOKED or isinstance(value, Unknown):
            continue
        value = value.value if isinstance(value, Known) else value
        if below in _FOLDED:
            found += _worst_gpu_facts(value, below)
        elif isinstance(value, msgspec.Struct):
            found += _facts_of(value, below)
        elif (plain := _scalar_of(value)) is not None:
            found.append((below, plain))
    return found


@lru_cache(maxsize=256)  # each kind of struct lies at one or two places
def _fields(kind: type[msgspec.Struct], path: str) -> tuple[tuple[str, str], ...]:
    """Of the fields that are looked at, the names and the whole paths."""
    named = ((field.name, f"{path}.{field.name}") for field in msgspec.structs.fields(kind))
    return tuple((name, below) for name, below in named if below not in _LEFT_OUT and can_be_a_reason(below))


def _scalar_of(value: Any) -> Scalar | None:
    """A value as one: texts cut, lists of names in their order, of numbers the median."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    if not isinstance(value, list | tuple):
        return None
    if all(isinstance(one, str) for one in value):
        return ", ".join(sorted(value))[:LONGEST_TEXT] or "none"
    return float(statistics.median(value)) if all(isinstance(one, int | float) for one in value) else None


def _worst_gpu_facts(gpus: Any, path: str) -> Iterator[tuple[str, Scalar]]:
    """Each fact of the GPU on which it is worst, under `path.number`."""
    seen: dict[str, dict[int, Scalar]] = {}
    for number, gpu in enumerate(gpus[:MOST_GPUS]):
        for below, value in _facts_of(gpu, path):
            seen.setdefault(below, {})[number] = value
    for below, values in seen.items():
        name = below.removeprefix(f"{path}.")
        way = WORSE.get(name, 0)
        amounts = {n: way * value for n, value in values.items() if way and isinstance(value, int | float)}
        first = next(iter(values))
        # Of what has no worse end, the first that is unlike the first
        unlike = next((number for number, value in values.items() if value != values[first]), first)
        number = max(amounts, key=lambda n: (amounts[n], -n)) if amounts else unlike
        yield f"{path}.{number}.{name}", values[number]


ALL = 0.995  # Of the peers: from there on it is all of them
_UNITS = (
    ("_bytes_per_s", 1e9, "GB/s"), ("_bytes", GIB, "GiB"), ("_hz", 1e6, "MHz"), ("_w", 1.0, "W"), ("_c", 1.0, "°C"),
    ("_s", 1.0, "s"),
)  # fmt: skip
_NUMBERED = re.compile(r"\.gpus\.(\d+)\.")
_NAMES = {
    "runtime.version": "version", "machine.gpus.driver": "GPU driver", "machine.cpu.model": "CPU",
    "machine.load.busy_cpus": "busy host CPUs", "machine.load.average_1min": "host load",
    "machine.memory.total_bytes": "RAM", "machine.memory.available_bytes": "free RAM",
    "machine.memory.swap_used_bytes": "swap in use", "run.traffic.cache_used": "KV cache in use",
    "run.traffic.preemptions": "preemptions", "runtime.context.length": "context length",
    "run.gpus.event_reasons": "throttled by", "machine.gpus.event_reasons": "throttled by",
    "run.logged_prompts": "prompt tokens", "run.depth_tokens": "context tokens",
    "run.gpus.temperature_max_c": "highest temperature", "machine.gpus.clock_hz": "GPU clock",
    "run.gpus.clock_hz": "GPU clock", "runtime.compute.eager": "eager mode (no CUDA graphs):",
    "runtime.cache.type_k": "KV cache type",
}  # fmt: skip
_REASONS = {
    "sw_power_cap": "a power limit", "hw_power_brake_slowdown": "a power brake", "sw_thermal_slowdown": "heat",
    "hw_thermal_slowdown": "heat", "hw_slowdown": "the hardware",
}  # fmt: skip


def summary_of(reached: float, peers: int, found: Sequence[Difference]) -> str:
    """How fast it is among its peers, and the fact that tells most; plainly so where no known fact differs."""
    pace = f"{reached:.0%} of its peers' speed at the same load"
    if not found:
        return f"{pace}; no known fact differs from its {peers:,} peers"
    first, *others = found
    *named, last = [f"{fact_words(one.fact)} {value_words(one.fact, one.value)}" for one in others] or [""]
    also = f"; also {' and '.join(filter(None, (', '.join(named), last)))}" if last else ""
    return f"{pace}: {difference_words(first, peers)}{also}"


def difference_words(difference: Difference, peers: int) -> str:
    """A fact, its value here and that of the peers."""
    own, theirs = (value_words(difference.fact, value) for value in (difference.value, difference.peers))
    if own == theirs:  # too close to tell apart in the usual digits
        own, theirs = str(difference.value), str(difference.peers)
    who = f"its {peers:,} peers" if difference.share >= ALL else f"{difference.share:.0%} of its {peers:,} peers"
    return f"{fact_words(difference.fact)} {own}, {who} have {theirs}"


def fact_words(path: str) -> str:
    """A fact as a person calls it; which GPU it is of where that is not the first."""
    number = _NUMBERED.search(path)
    plain = _NUMBERED.sub(".gpus.", path)
    which = f" of GPU {number[1]}" if number and number[1] != "0" else ""
    name = _last_word(plain)
    for ending, _, _ in _UNITS:
        name = name.removesuffix(ending)
    words = name.replace("vram", "GPU memory").replace("pcie", "PCIe").replace("_", " ").replace("kv ", "KV ")
    return f"{_NAMES.get(plain, words)}{which}"


def value_words(path: str, value: Scalar) -> str:
    """A value in the unit that its name carries."""
    path = short_path(path)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        if not path.endswith(".event_reasons"):
            return value or "none"
        # What holds clocks down, in words; those that have none keep their name
        return " and ".join(dict.fromkeys(_REASONS.get(reason, reason) for reason in value.split(", ")))
    if path.endswith(SHARES) and 0 <= value <= 1:
        return f"{value:.0%}"
    for ending, size, unit in _UNITS:
        if path.endswith(ending):
            return f"{_number(value / size)} {unit}"
    return _number(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"  # noqa: PLR2004 (three digits)

"""Logs of serving engines, read by rules: settings, memory, work, and what all servers in Python write."""

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from unslow.facts.masking import masked_text
from unslow.facts.model import Model
from unslow.facts.runtime import AllocationFailure, Buffer, Runtime, SeenDevice
from unslow.facts.snapshot import Subject
from unslow.facts.values import GIB, MIB, NOT_LOOKED, Known, estimated, reported
from unslow.look.logs.dialect import Seen

MOST_COUNT = 2**53
MOST_BYTES = 2**60
_KEPT_RATES = 1000
_KEPT_WARNINGS = 40
_KEPT_DEVICES = 64
_LONGEST_TEXT = 300


class Moment(NamedTuple):
    """What an engine says of its work at one time; None where it does not say."""

    where: str
    running: int | None = None
    waiting: int | None = None
    usage: float | None = None
    tokens_per_s: float | None = None
    prefills: bool = False
    """Whether prompts were read meanwhile, which takes time from the answers."""


@dataclass
class Reading:
    """Everything known after the lines so far."""

    facts: dict[str, Known[Any]] = field(default_factory=dict)
    model: dict[str, Known[Any]] = field(default_factory=dict)
    buffers: dict[tuple[str, str], tuple[Buffer, str]] = field(default_factory=dict)
    devices: dict[str, tuple[SeenDevice, str]] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    warnings_where: str = ""
    fullest: Moment | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_RATES))
    steady_rates: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_RATES))
    last_running: int | None = None
    rates_where: str = ""
    counted: dict[str, tuple[int, str]] = field(default_factory=dict)
    worked: bool = False
    named: str = ""
    """The first line that only this program writes."""

    def start(self) -> None:
        """A process starts: what an earlier one did before is no longer so."""
        if self.worked:
            vars(self).update(vars(Reading(named=self.named)))

    def note(self, name: str, value: Any, where: str) -> None:
        """The runtime says a fact."""
        self.facts[name] = reported(value, where)

    def guess(self, name: str, value: Any, where: str) -> None:
        """A fact that follows from a line, unless one says it outright."""
        self.facts.setdefault(name, estimated(value, where))

    def count(self, name: str, more: int, where: str) -> None:
        """So many more of something."""
        before, first = self.counted.get(name, (0, where))
        self.counted[name] = (min(before + more, MOST_COUNT), first)

    def allocated(self, buffer: Buffer, where: str) -> None:
        """Memory of one kind on one device; said again, the later size counts."""
        if len(self.buffers) < _KEPT_DEVICES or (buffer.device, buffer.kind) in self.buffers:
            self.buffers[buffer.device, buffer.kind] = (buffer, where)

    def device(self, device: SeenDevice, where: str) -> None:
        """A device as the program found it."""
        if len(self.devices) < _KEPT_DEVICES or device.name in self.devices:
            self.devices[device.name] = (device, where)

    def warn(self, text: str, where: str) -> None:
        """A complaint, once of each kind."""
        kind = re.sub(r"\d+", "", text)[:60]
        if len(self.warnings) < _KEPT_WARNINGS:
            self.warnings.setdefault(kind, masked_text(text)[:_LONGEST_TEXT])
            self.warnings_where = self.warnings_where or where

    def fail(self, text: str, where: str, failure: AllocationFailure | None = None) -> None:
        """The program could not start; the first reason is the root, what follows only repeats it."""
        self.worked = True
        self.facts.setdefault("state", reported("failed", where))
        self.facts.setdefault("load_error", reported(masked_text(text)[:_LONGEST_TEXT], where))
        known = self.facts.get("allocation_failure")
        if failure and (known is None or not isinstance(known.value.asked_bytes, Known)):
            self.facts["allocation_failure"] = reported(failure, where)

    def works(self, moment: Moment) -> None:
        """One line about the work; of many, the one with the fullest cache is kept, and every speed."""
        self.worked = True
        for name in ("state", "load_error", "allocation_failure"):
            self.facts.pop(name, None)
        if self.fullest is None or _fullness(moment) >= _fullness(self.fullest):
            self.fullest = moment
        if moment.tokens_per_s is not None:
            self._rate(moment, moment.tokens_per_s)

    def _rate(self, moment: Moment, tokens_per_s: float) -> None:
        """The speed of one request: surely known only where as many ran before, and no prompts were read meanwhile."""
        before, self.last_running = self.last_running, moment.running
        if not tokens_per_s or moment.running == 0:
            return
        steady = not moment.prefills and before in (None, moment.running)
        kept = self.steady_rates if steady else self.rates
        kept.append(tokens_per_s / max(1, moment.running or 1, before or 1))
        self.rates_where = moment.where


def _fullness(moment: Moment) -> tuple[float, int, int]:
    return (moment.usage or 0, moment.waiting or 0, moment.running or 0)


NUMBER = r"(\d{1,3}(?:,\d{3}){1,5}|\d{1,15}(?:\.\d{1,9})?)"
"""A count with or without thousands' marks, or a decimal number."""

_UNITS = {"GiB": GIB, "GB": GIB, "MiB": MIB, "MB": MIB}  # these programs count in powers of two and write either


class Rule(NamedTuple):
    """A kind of line: texts of which it must hold one, what to read from it, and what that means."""

    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    take: Callable[[Reading, re.Match[str], str], None]
    own: bool = True
    """Whether no other program writes it."""


class RuleReader:
    """One pass over one text by the rules of one program."""

    def __init__(self, name: str, rules: Sequence[Rule], *, alone: bool) -> None:
        self._name = name
        self._rules = rules
        self._numbered = [(needle, number) for number, rule in enumerate(rules) for needle in rule.needles]
        self._alone = alone
        self._reading = Reading()
        self._lines = 0

    def take(self, line: str, where: str) -> bool:
        """Read a line; a line may be of several kinds."""
        known = False
        for number in sorted({number for needle, number in self._numbered if needle in line}):
            rule = self._rules[number]
            if found := rule.pattern.search(line):
                known = True
                rule.take(self._reading, found, where)
                self._reading.named = self._reading.named or (where if rule.own else "")
        self._lines += known
        return known

    def skip(self, needle: str, count: int) -> None:
        """Lines that are left out say what others say; how often is not added up here."""

    def seen(self, source: str) -> Seen:  # noqa: ARG002 (every fact has the line it stands in)
        """The last process of the log; `alone` says whether lines that others write too are enough to speak."""
        if not self._lines or not (self._alone or self._reading.named):
            return Seen()
        subject = subject_of(self._reading, self._name)
        return Seen(subject=subject, lines=self._lines) if subject != Subject() else Seen()


def ignore_line(_reading: Reading, _found: re.Match[str], _where: str) -> None:
    """A line of the program that tells nothing here; but it is no prose."""


def needles_of(rules: Sequence[Rule]) -> tuple[str, ...]:
    """All needles, once each."""
    return tuple(dict.fromkeys(needle for rule in rules for needle in rule.needles))


def subject_of(reading: Reading, name: str) -> Subject:
    """What the lines add up to."""
    facts: dict[str, Any] = {**reading.facts, **_work(reading), **_memory(reading)}
    if "preemptions" in reading.counted:
        facts["preemptions"] = reported(*reading.counted["preemptions"])
    # The share of prompt tokens that came from the cache, where every line counts both
    prompt, where = reading.counted.get("prompt_tokens", (0, ""))
    cached, _ = reading.counted.get("cached_tokens", (0, ""))
    hits = {"prefix_hit_rate": estimated(cached / prompt, f"{where} and on")} if prompt else {}
    facts |= hits
    if reading.warnings:
        facts["warnings"] = reported(list(reading.warnings.values()), reading.warnings_where)
    runtime = Runtime(name=reported(name, reading.named) if reading.named else NOT_LOOKED, **facts)
    return Subject(runtime=runtime, model=Model(**reading.model))


def _work(reading: Reading) -> dict[str, Known[Any]]:
    facts: dict[str, Known[Any]] = {}
    rates = reading.steady_rates or reading.rates
    if rates:
        source = f"{reading.rates_where}: tokens a second of one request, the middle of {len(rates)} lines"
        facts["decode_tokens_per_s"] = estimated(median(rates), source)
    if moment := reading.fullest:
        pairs = (
            ("running_requests", moment.running),
            ("deferred_requests", moment.waiting),
            ("kv_usage", moment.usage),
        )
        facts |= {name: reported(value, moment.where) for name, value in pairs if value is not None}
    return facts


def _memory(reading: Reading) -> dict[str, Known[Any]]:
    facts: dict[str, Known[Any]] = {}
    if reading.buffers:
        buffers = list(reading.buffers.values())
        facts["buffers"] = reported([buffer for buffer, _ in buffers], buffers[0][1])
    caches = [(buffer.bytes, where) for buffer, where in reading.buffers.values() if buffer.kind == "kv"]
    if caches:
        facts["kv_bytes"] = reported(min(sum(size for size, _ in caches), MOST_BYTES), caches[0][1])
    if reading.devices:
        facts["devices"] = reported(
            [d for d, _ in reading.devices.values()], next(where for _, where in reading.devices.values())
        )
    return facts


def parse_whole_number(text: str) -> int:
    """A count as written, within bounds."""
    return min(int(float(text.replace(",", ""))), MOST_COUNT)


def parse_share(text: str) -> float:
    """A percentage as a share of one; above a hundred is a hundred."""
    return min(float(text) / 100, 1.0)


def parse_size(text: str, unit: str = "GiB") -> int:
    """A size in bytes, within bounds."""
    return min(round(float(text.replace(",", "")) * _UNITS[unit]), MOST_BYTES)


_PAIR = re.compile(
    r"""(?<![\w.])['"]?([a-z][a-z_]{2,40})['"]?\s?[=:]\s?"""
    r"""(?:'([^']{0,500})'|"([^"]{0,500})"|([^\s,(){}]{1,200}))"""
)
_NOTHING = ("", "None", "auto", "null")


class Key(NamedTuple):
    """Which fact a setting is, and how its text becomes a value; None where the text is none."""

    fact: str
    value: Callable[[str], Any]


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= len(str(MOST_COUNT)) and int(text) < MOST_COUNT else None


def _share(text: str) -> float | None:
    return float(text) if re.fullmatch(r"0?\.\d{1,9}|1(?:\.0{1,9})?", text) else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _untruth(text: str) -> bool | None:
    return {"true": False, "false": True}.get(text.lower())


def _gibibytes(text: str) -> int | None:
    return min(round(float(text) * GIB), MOST_BYTES) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text) else None


def _type(text: str) -> str:
    return text.removeprefix("torch.")


_LENGTH, _SEQUENCES = Key("context_length", _count), Key("max_sequences", _count)
_TENSOR, _PIPELINE = Key("tensor_parallel", _count), Key("pipeline_parallel", _count)
_CHUNK, _FRACTION = Key("max_batched_tokens", _count), Key("gpu_memory_fraction", _share)
_EAGER, _DRAFT = Key("eager", _truth), Key("draft_tokens", _count)

SETTING_KEYS: dict[str, tuple[Key, ...]] = {
    "quantization": (Key("quantization", str),),
    "dtype": (Key("weights_type", _type),),
    "kv_cache_dtype": (Key("kv_type_k", _type), Key("kv_type_v", _type)),
    "cpu_offload_gb": (Key("cpu_offload_bytes", _gibibytes),),
    "attention_backend": (Key("attention", str),),
    # vLLM
    "max_seq_len": (_LENGTH,),
    "max_model_len": (_LENGTH,),
    "tensor_parallel_size": (_TENSOR,),
    "pipeline_parallel_size": (_PIPELINE,),
    "enforce_eager": (_EAGER,),
    "enable_prefix_caching": (Key("prompt_cache", _truth),),
    "gpu_memory_utilization": (_FRACTION,),
    "num_gpu_blocks_override": (Key("kv_blocks_set", _count),),
    "max_num_seqs": (_SEQUENCES,),
    "max_num_batched_tokens": (_CHUNK,),
    "device_config": (Key("device_used", str),),
    "speculative_model": (Key("speculative", str),),
    "num_speculative_tokens": (_DRAFT,),
    # SGLang
    "context_length": (_LENGTH,),
    "tp_size": (_TENSOR,),
    "pp_size": (_PIPELINE,),
    "disable_cuda_graph": (_EAGER,),
    "disable_radix_cache": (Key("prompt_cache", _untruth),),
    "mem_fraction_static": (_FRACTION,),
    "max_running_requests": (_SEQUENCES,),
    "chunked_prefill_size": (_CHUNK,),
    "speculative_algorithm": (Key("speculative", str),),
    "speculative_num_draft_tokens": (_DRAFT,),
}
_MODEL_KEYS = ("model", "model_path", "model_tag", "model_id")


def note_settings(reading: Reading, text: str, where: str) -> None:
    """Every setting of the text as a fact; the first of a name counts, since later ones are nested."""
    pairs: dict[str, str] = {}
    for name, single, double, bare in _PAIR.findall(text):
        pairs.setdefault(name, single or double or bare)
    for name, written in pairs.items():
        if written in _NOTHING:
            continue
        if name in _MODEL_KEYS:
            note_model(reading, written, where)
        for key in SETTING_KEYS.get(name, ()):
            if (value := key.value(written)) is not None:
                reading.note(key.fact, value, where)


def note_model(reading: Reading, name: str, where: str) -> None:
    """A model by its folder, or by its name in a hub."""
    folder = name.startswith("/")
    reading.model.setdefault("name", reported(name.rstrip("/").rpartition("/")[2] if folder else name, where))
    if folder:
        reading.model.setdefault("path", reported(name, where))


_SIZE = r"(\d{1,9}(?:\.\d{1,6})?) (GiB|MiB)"
_COMPLAINTS = (
    "erformance might be sub-optimal",
    "does not have native support for FP8",
    "degrade performance",
    "performance may be degraded",
    "in reduced performance",
    "may slow down",
    "cause a significant slowdown",
    "Custom allreduce is disabled",
)
_EMPTY = (
    ('HTTP/1.1" ', r'INFO: {1,8}[\w.:\[\]-]{3,60}:\d{1,5} - "[A-Z]{3,7} '),
    ("INFO:     ", r"INFO: {5}(?:Started server|Waiting for application|Application (?:startup|shutdown))"),
    (".cpp:", r"\[[EFIW]\d{4} \d\d:\d\d:\d\d\."),
    ("checkpoint shards:", r"checkpoint shards: {1,3}\d{1,3}% Completed"),
)
"""Lines that tell nothing, but are no prose."""
CHATTY_ANYWHERE = frozenset({'HTTP/1.1" ', "INFO:     "})
_BEFORE, _AFTER = 200, 200


def _out_of_memory(reading: Reading, found: re.Match[str], where: str) -> None:
    asked = reported(parse_size(found[2], found[3]), where) if found[2] else NOT_LOOKED
    device = f"GPU {found[4]}" if found[4] else "GPU"
    failure = AllocationFailure(device=device, what="unknown", asked_bytes=asked, message=found[0])
    reading.fail(found[0], where, failure)


def _forced(reading: Reading, found: re.Match[str], where: str) -> None:
    """A slow kernel runs because somebody named it."""
    reading.note("quantization", found[1], where)
    reading.note("kernel", found[1], where)
    reading.warn(found[0], where)


def _not_optimised(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("quantization", found[1], where)
    reading.warn(found[0], where)


def _converted(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("kernel", found[1], where)


def _kernel(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.guess("kernel", found[1], where)


def _cast(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.note("weights_type", found[1], where)


def _warned(reading: Reading, found: re.Match[str], where: str) -> None:
    """A sentence about speed, from where the message starts: before it stand its time and its place in the source."""
    line, at = found.string, found.start()
    start = max(line.rfind("] ", 0, at) + 2 if "] " in line[:at] else 0, at - _BEFORE)
    reading.warn(line[start : at + _AFTER].strip(), where)


TORCH_RULES = (
    Rule(
        ("out of memory",),
        re.compile(
            rf"((?:CUDA|HIP|XPU) out of memory)(?:\. Tried to allocate {_SIZE})?"
            r"(?:[. (]{1,3}GPU (\d{1,3}))?[^\n]{0,160}"
        ),
        _out_of_memory,
        own=False,
    ),
    Rule(
        ("explicitly, so forcing", "quantization=awq explicitly", "quantization=gptq explicitly"),
        re.compile(
            r"(?:can run with \w{1,40}, however )?(?:you specified )?quantization=(\w{1,40}) explicitly[^\n]{0,120}"
        ),
        _forced,
        own=False,
    ),
    Rule(
        ("quantization is not fully optimized",),
        re.compile(r"\b(\w{1,40}) quantization is not fully optimized yet[^\n]{0,90}"),
        _not_optimised,
        own=False,
    ),
    Rule(("during runtime. Using",), re.compile(r"during runtime\. Using (\w{1,40}) kernel"), _converted, own=False),
    Rule(
        ("LinearMethod", "for CompressedTensors", " GEMM", "for mixed-precision linear"),
        re.compile(
            r"Using (\w{1,60}) for (?:\w{1,60}LinearMethod|CompressedTensors\w|\w{1,20} GEMM|mixed-precision linear)"
        ),
        _kernel,
        own=False,
    ),
    Rule(("Casting torch.",), re.compile(r"Casting torch\.\w{1,20} to torch\.(\w{1,20})"), _cast, own=False),
    *(Rule((needle,), re.compile(pattern), ignore_line, own=False) for needle, pattern in _EMPTY),
    Rule(_COMPLAINTS, re.compile("|".join(map(re.escape, _COMPLAINTS))), _warned, own=False),
)

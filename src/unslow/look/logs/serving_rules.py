"""Logs of serving engines, read by rules: those of each, and those of the lines that all servers in Python write."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, Literal

from unslow.facts.model import Model
from unslow.facts.runtime import AllocationFailure, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, estimated_fact, reported_fact
from unslow.look.logs.dialect import LineDialect, LogFacts, Rule, Rules, needles_of
from unslow.look.logs.serving_state import MOST_BYTES, MOST_COUNT, Reading, parse_size

CHATTY_ANYWHERE = frozenset({'HTTP/1.1" ', "INFO:     "})
TORCH_RULES = Rules[Reading]()  # Lines that several programs write
_PAIR = re.compile(
    r"""(?<![\w.])['"]?([a-z][a-z_]{2,40})['"]?\s?[=:]\s?"""
    r"""(?:'([^']{0,500})'|"([^"]{0,500})"|([^\s,(){}]{1,200}))"""
)
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


def serving_dialect(name: str, rules: Rules[Reading], *chatty: str, alone: bool = False) -> LineDialect:
    """The log of a server in Python: by rules of its own, and by those of lines that several programs write."""
    every = [*rules, *TORCH_RULES]
    start = partial(RuleReader, name, every, alone=alone)
    return LineDialect(needles_of(every), start, CHATTY_ANYWHERE.union(chatty))


class RuleReader:
    """One pass over one text by the rules of one program."""

    def __init__(self, name: str, rules: Sequence[Rule[Reading]], *, alone: bool) -> None:
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

    def log_facts(self, source: str) -> LogFacts:  # noqa: ARG002 (every fact has the line it stands in)
        """The last process of the log; `alone` says whether lines that others write too are enough to speak."""
        if not self._lines or not (self._alone or self._reading.named):
            return LogFacts()
        subject = subject_of(self._reading, self._name)
        return LogFacts(subject=subject, lines=self._lines) if subject != Subject() else LogFacts()


def subject_of(reading: Reading, name: str) -> Subject:
    """What the lines add up to."""
    facts: dict[str, Any] = {**reading.facts}
    if rates := reading.steady_rates or reading.rates:
        source = f"{reading.rates_where}: tok/s of one request, median of {len(rates)} lines"
        facts["decode_tokens_per_s"] = estimated_fact(median(rates), source)
    if moment := reading.fullest:
        work = {"running_requests": moment.running, "deferred_requests": moment.waiting, "kv_usage": moment.usage}
        facts |= {name: reported_fact(value, moment.where) for name, value in work.items() if value is not None}
    if buffers := list(reading.buffers.values()):
        facts["buffers"] = reported_fact([buffer for buffer, _ in buffers], buffers[0][1])
    if caches := [(buffer.bytes, where) for buffer, where in buffers if buffer.kind == "kv"]:
        facts["kv_bytes"] = reported_fact(min(sum(size for size, _ in caches), MOST_BYTES), caches[0][1])
    if devices := list(reading.devices.values()):
        facts["devices"] = reported_fact([device for device, _ in devices], devices[0][1])
    if "preemptions" in reading.counted:
        facts["preemptions"] = reported_fact(*reading.counted["preemptions"])
    # The share of prompt tokens that came from the cache, where every line counts both
    prompt, where = reading.counted.get("prompt_tokens", (0, ""))
    if prompt:
        cached, _ = reading.counted.get("cached_tokens", (0, ""))
        facts["prefix_hit_rate"] = estimated_fact(cached / prompt, f"{where} and on")
    if reading.warnings:
        facts["warnings"] = reported_fact(list(reading.warnings.values()), reading.warnings_where)
    runtime = Runtime(name=reported_fact(name, reading.named) if reading.named else NOT_LOOKED).with_facts(**facts)
    return Subject(runtime=runtime, model=Model(**reading.model))


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= len(str(MOST_COUNT)) and int(text) < MOST_COUNT else None


def _share(text: str) -> float | None:
    return float(text) if re.fullmatch(r"0?\.\d{1,9}|1(?:\.0{1,9})?", text) else None


def _truth(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


SETTING_KEYS: dict[str, tuple[tuple[str, ...], Callable[[str], Any]]] = {
    "quantization": (("quantization",), str),
    "dtype": (("weights_type",), lambda text: text.removeprefix("torch.")),
    "kv_cache_dtype": (("kv_type_k", "kv_type_v"), lambda text: text.removeprefix("torch.")),
    "cpu_offload_gb": (
        ("cpu_offload_bytes",),
        lambda text: parse_size(text) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text) else None,
    ),
    "attention_backend": (("attention",), str),
    # vLLM
    "max_seq_len": (("context_length",), _count),
    "max_model_len": (("context_length",), _count),
    "tensor_parallel_size": (("tensor_parallel",), _count),
    "pipeline_parallel_size": (("pipeline_parallel",), _count),
    "enforce_eager": (("eager",), _truth),
    "enable_prefix_caching": (("prompt_cache",), _truth),
    "gpu_memory_utilization": (("gpu_memory_fraction",), _share),
    "num_gpu_blocks_override": (("kv_blocks_set",), _count),
    "max_num_seqs": (("max_sequences",), _count),
    "max_num_batched_tokens": (("max_batched_tokens",), _count),
    "device_config": (("device_used",), str),
    "speculative_model": (("speculative",), str),
    "num_speculative_tokens": (("draft_tokens",), _count),
    # SGLang
    "context_length": (("context_length",), _count),
    "tp_size": (("tensor_parallel",), _count),
    "pp_size": (("pipeline_parallel",), _count),
    "disable_cuda_graph": (("eager",), _truth),
    "disable_radix_cache": (("prompt_cache",), lambda text: {"true": False, "false": True}.get(text.lower())),
    "mem_fraction_static": (("gpu_memory_fraction",), _share),
    "max_running_requests": (("max_sequences",), _count),
    "chunked_prefill_size": (("max_batched_tokens",), _count),
    "speculative_algorithm": (("speculative",), str),
    "speculative_num_draft_tokens": (("draft_tokens",), _count),
}
"""The facts that a setting is, and how its text becomes a value; None where the text is none."""


def note_settings(reading: Reading, text: str, where: str) -> None:
    """Every setting of the text as a fact; the first of a name counts, since later ones are nested."""
    pairs: dict[str, str] = {}
    for name, single, double, bare in _PAIR.findall(text):
        pairs.setdefault(name, single or double or bare)
    for name, written in pairs.items():
        if written in ("", "None", "auto", "null"):
            continue
        if name in ("model", "model_path", "model_tag", "model_id"):
            note_model(reading, written, where)
        facts, parse = SETTING_KEYS.get(name, ((), str))
        if (value := parse(written)) is not None:
            for fact in facts:
                reading.note(fact, value, where)


def note_model(reading: Reading, name: str, where: str) -> None:
    """A model by its folder, or by its name in a hub."""
    folder = name.startswith("/")
    reading.model.setdefault("name", reported_fact(name.rstrip("/").rpartition("/")[2] if folder else name, where))
    if folder:
        reading.model.setdefault("path", reported_fact(name, where))


def gpu_of_worker(found: re.Match[str], rank: re.Pattern[str]) -> str:
    """The GPU of the worker that writes, whose rank stands before what was found; there may be one alone."""
    worker = rank.search(found.string, 0, found.start())
    return f"GPU{worker[1] if worker else 0}"


def fail_to_allocate(what: Literal["weights", "kv_cache"], reading: Reading, found: re.Match[str], where: str) -> None:
    """Note that the GPUs have no room for this part, in the words that were found."""
    reading.fail(found[0], where, AllocationFailure(device="GPU", what=what, message=found[0]))


@TORCH_RULES(
    "out of memory",
    r"((?:CUDA|HIP|XPU) out of memory)(?:\. Tried to allocate (\d{1,9}(?:\.\d{1,6})?) (GiB|MiB))?"
    r"(?:[. (]{1,3}GPU (\d{1,3}))?[^\n]{0,160}",
    own=False,
)
def _out_of_memory(reading: Reading, found: re.Match[str], where: str) -> None:
    asked = reported_fact(parse_size(found[2], found[3]), where) if found[2] else NOT_LOOKED
    device = f"GPU {found[4]}" if found[4] else "GPU"
    failure = AllocationFailure(device=device, what="unknown", asked_bytes=asked, message=found[0])
    reading.fail(found[0], where, failure)


for _facts, _needles, _pattern in (
    (
        "kernel quantization",  # a slow kernel runs because it was requested by name
        ("explicitly, so forcing", "quantization=awq explicitly", "quantization=gptq explicitly"),
        r"(?:can run with \w{1,40}, however )?(?:you specified )?quantization=(\w{1,40}) explicitly[^\n]{0,120}",
    ),
    (
        "quantization",
        ("quantization is not fully optimized",),
        r"\b(\w{1,40}) quantization is not fully optimized yet[^\n]{0,90}",
    ),
):
    TORCH_RULES.note(_facts, _needles, _pattern, own=False)
    TORCH_RULES(_needles, _pattern, own=False)(lambda reading, found, where: reading.warn(found[0], where))
TORCH_RULES.note("kernel", "during runtime. Using", r"during runtime\. Using (\w{1,40}) kernel", own=False)
TORCH_RULES(
    ("LinearMethod", "for CompressedTensors", " GEMM", "for mixed-precision linear"),
    r"Using (\w{1,60}) for (?:\w{1,60}LinearMethod|CompressedTensors\w|\w{1,20} GEMM|mixed-precision linear)",
    own=False,
)(lambda reading, found, where: reading.guess("kernel", found[1], where))
TORCH_RULES.note("weights_type", "Casting torch.", r"Casting torch\.\w{1,20} to torch\.(\w{1,20})", own=False)
for _needle, _pattern in (  # lines that say nothing here, but are not prose
    ('HTTP/1.1" ', r'INFO: {1,8}[\w.:\[\]-]{3,60}:\d{1,5} - "[A-Z]{3,7} '),
    ("INFO:     ", r"INFO: {5}(?:Started server|Waiting for application|Application (?:startup|shutdown))"),
    (".cpp:", r"\[[EFIW]\d{4} \d\d:\d\d:\d\d\."),
    ("checkpoint shards:", r"checkpoint shards: {1,3}\d{1,3}% Completed"),
):
    TORCH_RULES.note("", _needle, _pattern, own=False)


@TORCH_RULES(_COMPLAINTS, "|".join(map(re.escape, _COMPLAINTS)), own=False)
def _speed_warning(reading: Reading, found: re.Match[str], where: str) -> None:
    """A sentence about speed, from where the message starts: before it stand its time and its place in the source."""
    line, at = found.string, found.start()
    start = max(line.rfind("] ", 0, at) + 2 if "] " in line[:at] else 0, at - 200)
    reading.warn(line[start : at + 200].strip(), where)

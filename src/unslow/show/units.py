"""Units as people read them: GiB for memory, GB/s for bandwidth, ms for a token."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from unslow.facts.runtime import short_path
from unslow.think.case.speed import DECODE, PREFILL
from unslow.think.judge.findings import FIRST_TOKEN
from unslow.think.judge.pricing import UNEXPLAINED
from unslow.think.report import BudgetPart, Finding, SubjectReport

GIB, MIB, GB = 1024**3, 1024**2, 10**9
_LONG_S = 600  # From ten minutes on, seconds do not matter
_NOTHING_S = 1e-9


def size(count: float) -> str:
    """Bytes in binary units."""
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / MIB:,.0f} MiB"


def rate(tokens_per_s: float) -> str:
    """Tokens per second with three digits."""
    digits = 0 if tokens_per_s >= 100 else 1 if tokens_per_s >= 10 else 2  # noqa: PLR2004 (three digits)
    return f"{tokens_per_s:,.{digits}f}"


def span(seconds: float) -> str:
    """Hours, minutes, seconds, milliseconds or microseconds; less than a nanosecond is nothing."""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < _NOTHING_S:
        return "0 s"
    for least_s, unit_s, unit in ((60 * _LONG_S, 3600, "h"), (_LONG_S, 60, "min")):
        if seconds >= least_s:
            return f"{rate(seconds / unit_s)} {unit}"
    for limit, factor, unit in ((1.0, 1, "s"), (1e-3, 1e3, "ms")):
        if seconds >= limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def is_time(metric: str) -> bool:
    """Whether less of it is better."""
    return metric.endswith("_s") and not metric.endswith("_per_s")


def amount(metric: str, value: float) -> str:
    """A figure in the unit that its name carries."""
    return span(value) if is_time(metric) else f"{rate(value)} tok/s"


def _quantity(fact: str, value: float) -> str:
    """A number in the unit that its name carries."""
    if fact.endswith("_bytes_per_s"):
        return f"{value / GB:.1f} GB/s"
    if fact.endswith("_bytes"):
        return size(value)
    if fact.endswith("tokens_per_s"):
        return f"{rate(value)} tok/s"
    if fact.endswith(("_s", "_s_per_token")) and not fact.endswith("_per_s"):
        return span(value)
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


def count(number: float) -> str:
    """A count of parameters with three digits: 135M, 8.03B."""
    for limit, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if number >= limit:
            share = number / limit
            return f"{share:.{0 if share >= 100 else 1 if share >= 10 else 2}f}{unit}"  # noqa: PLR2004 (three digits)
    return f"{number:,.0f}"


_LABELS = {  # Those that the words of their path do not say
    "runtime.name": "runtime",
    "runtime.gpu_layers": "GPU layers",
    "runtime.gpu_layers_set": "GPU layers requested",
    "runtime.layers": "model layers",
    "runtime.vram_share": "share of the model in VRAM",
    "runtime.context_set": "context length requested",
    "runtime.kv_type_k": "KV cache type",
    "runtime.kv_type_v": "KV cache type of the values",
    "runtime.kv_usage": "KV cache usage",
    "runtime.kv_bytes": "KV cache size",
    "runtime.ubatch": "micro-batch",
    "runtime.longest_sequence": "longest sequence so far (tokens)",
    "runtime.prompts_reprocessed": "prompts prefilled again",
    "runtime.output_on_gpu": "output layer on the GPU",
    "runtime.eager": "CUDA graphs disabled",
    "runtime.gpu_refused": "why the GPU is not used",
    "runtime.available_bytes": "free VRAM",
    "runtime.asked_bytes": "VRAM requested",
    "runtime.deferred_requests": "queued requests",
    "runtime.draft_acceptance": "draft acceptance rate",
    "runtime.buffers": "allocated buffers",
    "runtime.devices": "devices visible to the runtime",
    "runtime.warnings": "runtime warnings",
    "runtime.tensor_parallel": "tensor parallel GPUs",
    "machine.gpus": "GPU",
    "machine.system.name": "operating system",
    "machine.cpu.model": "CPU",
    "machine.cpu.physical_cores": "cores",
    "machine.cpu.logical_cpus": "hardware threads",
    "machine.cpu.quota_cpus": "CPU quota (CPUs)",
    "machine.cpu.frequency_hz": "CPU clock",
    "machine.disks.kind": "disk type",
    "machine.memory.total_bytes": "RAM",
    "machine.memory.kind": "RAM type",
    "machine.memory.swap_used_bytes": "swap in use",
    "machine.memory.pressure": "memory pressure",
    "model.name": "model",
    "run.decode_tokens_per_s": "decode speed",
    "run.prefill_tokens_per_s": "prefill speed",
    "run.load_s": "load time",
    "run.queue_s": "queue time",
    "run.client_decode_tokens_per_s": "decode speed seen by the client",
    "run.own_cpus": "CPUs used by the runtime",
    "run.others_cpus": "CPUs used by other processes",
    "run.waiting_for_cpu_s_per_token": "time its threads waited for a CPU",
    "run.cpu_throttled_fraction": "share of time throttled by the CPU quota",
    "run.completions": "measured requests",
    "run.depths": "decode speed by context depth",
    "run.at_once": "concurrent requests",
    "run.plain_sampling": "decode without samplers",
    "run.turns": "conversation turns",
    "run.routes": "connections to the server",
    "run.traffic": "current traffic",
    "run.earlier": "last benchmark",
    "account.remarks": "written",
    "account.comparisons": "comparison",
    "account.version_before": "last good version",
    "account.version_since": "slow since version",
    "account.slowdown": "times slower",
}

_OF_A_DEVICE = re.compile(r"(?:machine|runtime\.placement|run)\.(?:gpus|devices)\.(\d+)\.(\w+)")
_PROCESS = re.compile(r"machine\.gpus\.processes\.\d+")
_WORDS = {"free_bytes": "free memory", "busy": "utilization"}
"""Names of a device's facts that say too little by themselves."""
_UNITS = re.compile(r"_(?:bytes|bytes_per_s|s|tokens_per_s|hz|w|c)$")
_SHARES = ("_share", "_usage", "_fraction", "_acceptance", "_hit_rate", ".busy", "_pressure", "_busy")
_LIST = re.compile(r"""\[(['"])(.*)\1\]""", re.DOTALL)
_VARIABLES = re.compile(r"\{'.*'\}")
_VARIABLE = re.compile(r"'(\w+)': '([^']*)'")
_BETWEEN = re.compile(r"""(['"]), \1|['"], ['"]""")
_OF = {"token": "token", "prompt_token": "prompt token", "request": "request"}
_PHASE = {"token": "decode", "prompt_token": "prefill"}
_LITTLE = 0.01  # Of the whole: a share that is not worth a figure
_NOTHING = 1e-6
"""Of a phase: what takes less is not worth a line, such as what is left unexplained of a time that is explained."""
_TITLES = {
    "decode": "Time per token: {time}",
    "prefill": "Time per prompt token: {time}",
    "client": "Time outside the server per request: {time}",
    "queue": "Time in the queue per request: {time}",
    "load": "Load time per request: {time}",
}


def label(fact: str) -> str:
    """A fact as a person calls it; one that has no name of its own, by the words of its path."""
    short = short_path(fact)
    if short in _LABELS:
        return _LABELS[short]
    if _PROCESS.fullmatch(fact):
        return "process on the GPU"
    device = _OF_A_DEVICE.fullmatch(fact)
    name = device[2] if device else short.rpartition(".")[2]
    words = _UNITS.sub("", name).replace("vram", "GPU memory").replace("_", " ").replace("kv ", "KV ")
    return f"{_WORDS.get(name, words)} of GPU {device[1]}" if device else words


def value_text(fact: str, value: str | float) -> str:
    """A value as a person writes it."""
    fact = short_path(fact)
    if isinstance(value, bool):
        yes, no = ("on", "off") if fact.endswith("flash_attention") else ("yes", "no")
        return yes if value else no
    if isinstance(value, str):
        if _VARIABLES.fullmatch(value):  # lists and tables of names as their items
            return "; ".join(f"{name}={said}" for name, said in _VARIABLE.findall(value)) or value
        listed = _LIST.fullmatch(value)
        return _BETWEEN.sub("; ", listed[2]) if listed else value
    if fact.endswith(_SHARES) and 0 <= value <= 1:
        return f"{value:.0%}"
    if fact.endswith("parameters"):
        return count(value)
    if fact.endswith("_hz"):
        return f"{value / 1e6:,.0f} MHz"
    return _quantity(fact, value)


def subject_title(subject: SubjectReport) -> str:
    """Runtime, model and device on a line."""
    return " · ".join(name for name in (subject.runtime, subject.model, device_name(subject)) if name)


def device_name(subject: SubjectReport) -> str:
    """The first device, with how many are like it; empty where none is known."""
    if not subject.devices or subject.devices[0] == "unknown hardware":
        return ""
    alike, device = subject.devices.count(subject.devices[0]), subject.devices[0]
    device = device.replace("(R)", "").replace("(TM)", "")
    return f"{alike} x {device}" if alike > 1 else device


def cause_cost_text(number: int, root: Finding, subject: SubjectReport) -> str:
    """What it costs beside those before it, and how much faster it is without it."""
    gain = f"{root.speedup:.1f}× faster without it" if root.speedup and root.speedup > 1 + _LITTLE else ""
    if root.cost is None:
        return gain
    whole = 0.0  # the measured time that it is a part of
    if root.cost.depth_tokens is None:
        per, phase = root.cost.per, _PHASE.get(root.cost.per)
        whole = sum(b.seconds for b in subject.budget if b.per == per and phase in (None, b.phase))
    if root.cost.seconds <= _LITTLE * whole:
        before = "the first is" if number == 2 else "those before are"  # noqa: PLR2004 (the second)
        beside = f"nothing more once {before} fixed" if number > 1 else ""
        return "; alone ".join(words for words in (beside, gain) if words)
    of = f" of {span(whole)}" if whole else ""
    where = f" at {root.cost.depth_tokens:,} tokens of context" if root.cost.depth_tokens else ""
    lost = f"{span(root.cost.seconds)}{of} per {_OF[root.cost.per]}{where}"
    return f"{lost}: {gain}" if gain else lost


def fix_effect(predicted: Mapping[str, float]) -> str:
    """The first of what is predicted that a person looks at; empty where nothing is."""
    if DECODE in predicted:
        return f"about {rate(predicted[DECODE])} tok/s"
    if PREFILL in predicted:
        return f"prefill at about {rate(predicted[PREFILL])} tok/s"
    return f"first token after about {span(predicted[FIRST_TOKEN])}" if FIRST_TOKEN in predicted else ""


def budget_title(phase: str, seconds: float) -> str:
    """What a phase is, with its time."""
    return _TITLES.get(phase, "Time: {time}").format(time=span(seconds))


def phase_parts(budget: Sequence[BudgetPart]) -> list[tuple[str, list[BudgetPart]]]:
    """Every phase with its parts; nothing of a phase of which no part is known."""
    phases = []
    for phase, group in groupby(budget, key=lambda part: part.phase):
        parts = list(group)
        total = sum(p.seconds for p in parts)
        worth = [p for p in parts if p.seconds > _NOTHING * total]
        if any(p.part != UNEXPLAINED for p in worth):
            phases.append((phase, worth))
    return phases


def fold_small_parts(parts: list[BudgetPart]) -> list[BudgetPart]:
    """The parts that matter, those that hardly take time as one."""
    total = sum(p.seconds for p in parts)
    small = [p for p in parts if p.seconds < _LITTLE * total and p.part != UNEXPLAINED]
    if len(small) < 2:  # noqa: PLR2004 (one stays as it is)
        return parts
    name, seconds = f"{len(small)} smaller parts", sum(p.seconds for p in small)
    rest = BudgetPart(phase=parts[0].phase, part=name, seconds=seconds, per=parts[0].per)
    large = [p for p in parts if p not in small and p.part != UNEXPLAINED]
    return [*large, rest, *(p for p in parts if p.part == UNEXPLAINED)]

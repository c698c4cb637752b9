"""What every form of a report calls alike: facts, shares of time, what a cause costs, and what a fix should give."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from unslow.show.units import count, fact_value, rate, span
from unslow.think.case.prediction import DECODE, PREFILL
from unslow.think.judge.budget import UNEXPLAINED
from unslow.think.judge.expected import FIRST_TOKEN
from unslow.think.report import BudgetPart, Finding, SubjectReport

_LABELS = {
    "runtime.name": "runtime",
    "runtime.version": "version",
    "runtime.gpu_layers": "layers on the GPU",
    "runtime.gpu_layers_set": "layers asked for on the GPU",
    "runtime.layers": "layers of the model",
    "runtime.vram_share": "share of the model in GPU memory",
    "runtime.context_length": "context, in tokens",
    "runtime.context_set": "context asked for, in tokens",
    "runtime.kv_type_k": "type of the KV cache",
    "runtime.kv_type_v": "type of the values in the KV cache",
    "runtime.kv_usage": "share of the KV cache in use",
    "runtime.kv_bytes": "size of the KV cache",
    "runtime.slots": "slots",
    "runtime.ubatch": "tokens of a prompt computed at once",
    "runtime.longest_sequence": "longest sequence so far, in tokens",
    "runtime.prompts_reprocessed": "prompts read again",
    "runtime.output_on_gpu": "output layer on the GPU",
    "runtime.eager": "graphs switched off",
    "runtime.gpu_refused": "why the GPU is not used",
    "runtime.available_bytes": "free GPU memory",
    "runtime.asked_bytes": "memory asked for on the GPU",
    "runtime.deferred_requests": "requests that wait",
    "runtime.running_requests": "requests that run",
    "runtime.preemptions": "requests thrown out of the cache",
    "runtime.tensor_overrides": "tensors placed by a setting",
    "runtime.draft_acceptance": "share of drafted tokens accepted",
    "runtime.buffers": "memory that it allocated",
    "runtime.devices": "devices that the runtime sees",
    "runtime.warnings": "its own warnings",
    "runtime.tensor_parallel": "GPUs that share every layer",
    "runtime.quantization": "how the weights are read",
    "machine.gpus": "GPU",
    "machine.system.name": "operating system",
    "machine.system.container": "container",
    "machine.cpu.model": "CPU",
    "machine.cpu.physical_cores": "cores",
    "machine.cpu.logical_cpus": "hardware threads",
    "machine.cpu.quota_cpus": "CPUs that the container may use",
    "machine.cpu.frequency_hz": "clock of the CPU",
    "machine.disks.kind": "kind of disk",
    "machine.memory.total_bytes": "RAM",
    "machine.memory.kind": "kind of RAM",
    "machine.memory.swap_used_bytes": "swap in use",
    "machine.memory.pressure": "memory pressure",
    "model.name": "model",
    "model.quant": "quant",
    "model.parameters": "parameters",
    "model.weights_bytes": "size of the weights",
    "run.decode_tokens_per_s": "speed of the answer",
    "run.prefill_tokens_per_s": "speed of the prompt",
    "run.time_to_first_token_s": "time to the first token",
    "run.load_s": "time to load",
    "run.queue_s": "time in the queue",
    "run.client_decode_tokens_per_s": "speed that the client sees",
    "run.own_cpus": "CPUs that the runtime used",
    "run.others_cpus": "CPUs that other programs used",
    "run.waiting_for_cpu_s_per_token": "time that its threads waited for a CPU",
    "run.cpu_throttled_fraction": "share of the time that a quota held it back",
    "run.completions": "measured requests",
    "run.long_prompt": "a long prompt",
    "run.depths": "speed by depth of the context",
    "run.at_once": "several requests at once",
    "run.plain_sampling": "without any sampler",
    "run.turns": "turns of a conversation",
    "run.routes": "ways to the server",
    "run.traffic": "what it does for others",
    "run.earlier": "the last benchmark",
    "account.remarks": "they say",
    "account.comparisons": "they compare",
    "account.version_before": "last good version",
    "account.version_since": "slow since version",
    "account.slowdown": "times slower",
}
_OF_A_DEVICE = re.compile(r"(?:machine|runtime|run)\.(?:gpus|devices)\.(\d+)\.(\w+)")
_PROCESS = re.compile(r"machine\.gpus\.processes\.\d+")
_WORDS = {"free_bytes": "free memory", "busy": "share of the time busy"}
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
    "decode": "Where the {time} of a token go",
    "prefill": "Where the {time} of each token of a prompt go",
    "client": "Where {time} of every request go outside the server",
    "queue": "Where {time} of every request go in the queue",
    "load": "Where {time} of every request go with loading",
}


def label(fact: str) -> str:
    """A fact as a person calls it; one that has no name of its own, by the words of its path."""
    if fact in _LABELS:
        return _LABELS[fact]
    device = _OF_A_DEVICE.fullmatch(fact)
    if device:
        return f"{_WORDS.get(device[2]) or _words(device[2])} of GPU {device[1]}"
    if _PROCESS.fullmatch(fact):
        return "process on the GPU"
    return _words(fact.rpartition(".")[2])


def _words(name: str) -> str:
    return _UNITS.sub("", name).replace("vram", "GPU memory").replace("_", " ").replace("kv ", "KV ")


def worded_value(fact: str, value: str | float) -> str:
    """A value as a person writes it."""
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
    return fact_value(fact, value)


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


def price_of(number: int, root: Finding, subject: SubjectReport) -> str:
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
        beside = f"nothing more once {before} cured" if number > 1 else ""
        return "; alone ".join(words for words in (beside, gain) if words)
    of = f" of {span(whole)}" if whole else ""
    where = f" that comes {root.cost.depth_tokens:,} tokens deep in the context" if root.cost.depth_tokens else ""
    lost = f"{span(root.cost.seconds)}{of} for every {_OF[root.cost.per]}{where}"
    return f"{lost}: {gain}" if gain else lost


def promised(predicted: Mapping[str, float]) -> str:
    """The first of what is predicted that a person looks at; empty where nothing is."""
    if DECODE in predicted:
        return f"about {rate(predicted[DECODE])} tok/s"
    if PREFILL in predicted:
        return f"prompts at about {rate(predicted[PREFILL])} tok/s"
    return f"the first token after about {span(predicted[FIRST_TOKEN])}" if FIRST_TOKEN in predicted else ""


def budget_title(phase: str, seconds: float) -> str:
    """What a phase is, with its time."""
    return _TITLES.get(phase, "Where {time} go").format(time=span(seconds))


def told_phases(budget: Sequence[BudgetPart]) -> list[tuple[str, list[BudgetPart]]]:
    """Every phase with its parts; nothing of a phase of which no part is known."""
    phases = []
    for phase, group in groupby(budget, key=lambda part: part.phase):
        parts = list(group)
        total = sum(p.seconds for p in parts)
        worth = [p for p in parts if p.seconds > _NOTHING * total]
        if any(p.part != UNEXPLAINED for p in worth):
            phases.append((phase, worth))
    return phases


def folded(parts: list[BudgetPart]) -> list[BudgetPart]:
    """The parts that matter, those that hardly take time as one."""
    total = sum(p.seconds for p in parts)
    small = [p for p in parts if p.seconds < _LITTLE * total and p.part != UNEXPLAINED]
    if len(small) < 2:  # noqa: PLR2004 (one is no crowd)
        return parts
    name, seconds = f"{len(small)} smaller parts", sum(p.seconds for p in small)
    rest = BudgetPart(phase=parts[0].phase, part=name, seconds=seconds, per=parts[0].per)
    large = [p for p in parts if p not in small and p.part != UNEXPLAINED]
    return [*large, rest, *(p for p in parts if p.part == UNEXPLAINED)]

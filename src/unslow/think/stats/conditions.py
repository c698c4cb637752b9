"""What a benchmark was taken with, what of it changed between two, in plain words, and what to suspect."""

import math
import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import msgspec

from unslow.facts.bench import DECODE, Bench, Comparison
from unslow.facts.bench import Change as Verdict
from unslow.facts.errors import UserError
from unslow.facts.machine import Facts, Machine
from unslow.facts.run import Earlier, Run, Telemetry
from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known, measured, not_found
from unslow.think.stats.llama_bench import TESTS, TOOL
from unslow.think.stats.parts import Parts

SETTINGS = (
    # what computes
    "runtime.version", "runtime.backends", "runtime.build_type", "runtime.build_features",
    "runtime.build_architectures", "runtime.container", "runtime.system", "runtime.embedded",
    # the model
    "model.architecture", "model.quant", "model.parameters", "model.weights_bytes", "runtime.quantization",
    "runtime.weights_type",
    # where it lies
    "runtime.gpu_layers_set", "runtime.gpu_layers", "runtime.layers", "runtime.output_on_gpu", "runtime.device_set",
    "runtime.device_used", "runtime.split_mode", "runtime.tensor_split", "runtime.main_gpu", "runtime.tensor_parallel",
    "runtime.pipeline_parallel", "runtime.tensor_overrides", "runtime.cpu_offload_bytes", "runtime.gpu_memory_fraction",
    "runtime.load_mode", "runtime.fit", "runtime.fit_margin_bytes",
    # the context
    "runtime.context_length", "runtime.context_per_slot", "runtime.slots", "runtime.kv_type_k", "runtime.kv_type_v",
    "runtime.kv_offload", "runtime.kv_unified", "runtime.swa_full", "runtime.prompt_cache", "runtime.cache_reuse",
    "runtime.max_sequences", "runtime.max_batched_tokens",
    # how it computes
    "runtime.threads", "runtime.threads_batch", "runtime.batch", "runtime.ubatch", "runtime.flash_attention",
    "runtime.attention", "runtime.kernel", "runtime.eager", "runtime.op_offload", "runtime.repack", "runtime.numa",
    "runtime.cpu_list", "runtime.priority", "runtime.polling", "runtime.speculative", "runtime.draft_tokens",
    "runtime.top_k", "runtime.grammar",
    # the machine
    "machine.system.name", "machine.system.version", "machine.system.kernel", "machine.system.container",
    "machine.system.wsl", "machine.system.hypervisor", "machine.cpu.model", "machine.cpu.physical_cores",
    "machine.cpu.governor", "machine.cpu.frequency_max_hz", "machine.cpu.allowed_cpus", "machine.cpu.quota_cpus",
    "machine.memory.kind", "machine.memory.channels", "machine.memory.limit_bytes", "machine.memory.wired_limit_bytes",
    "machine.memory.numa_nodes",
)  # fmt: skip
"""Paths of facts that stay as they are while a benchmark runs."""
OF_A_GPU = ("name", "driver", "power_limit_w", "clock_max_hz", "pcie_generation_max", "pcie_width", "ecc", "mig")
_LONGEST = 120
_MOST_GPUS = 16
_SWITCH = {True: "on", False: "off"}
_LARGEST = 1e18


def settings_of(case: Case) -> dict[str, str]:
    """Every setting that is known, by the path of its fact, as a short text."""
    found = {path: _known(attrgetter(path)(case)) for path in SETTINGS}
    for gpu in case.machine.gpus.value_or(())[:_MOST_GPUS]:
        found |= {f"machine.gpus.{gpu.index}.{name}": _known(getattr(gpu, name)) for name in OF_A_GPU}
    words = {path: _worded(value) for path, value in found.items() if value is not None}
    return {path: text for path, text in words.items() if text}


def _known(fact: Any) -> Any:
    """The value; a switch that is no fact counts where it is on."""
    if isinstance(fact, bool):
        return fact or None
    return fact.value if isinstance(fact, Known) else None


def _worded(value: Any) -> str:
    match value:
        case bool():
            return _SWITCH[value]
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return ", ".join(map(_worded, value))[:_LONGEST]
        case _:
            text = str(value)
            is_path = text.startswith(("/", "~"))  # folders differ from user to user
            return (text.rpartition("/")[2] if is_path else text)[:_LONGEST]


def conditions_of(telemetry: Telemetry | None, run: Run, machine: Machine) -> dict[str, float]:
    """What the machine was like while tokens were generated, as far as anybody watched; each name has its unit."""
    found = dict(_looked(machine)) | dict(_from_run(run)) | dict(_watched(telemetry))
    return {name: float(value) for name, value in found.items() if math.isfinite(value) and 0 <= value <= _LARGEST}


def _watched(telemetry: Telemetry | None) -> Iterator[tuple[str, float]]:
    phases = {phase.phase: phase for phase in (telemetry.phases if telemetry else ())}
    phase = phases.get("decode") or phases.get("prefill")
    if phase is None:
        return
    yield from ((name, stat.mean) for name, stat in phase.host.items())
    for gpu in phase.gpus:
        own = _gpu_name(gpu.index, len(phase.gpus))
        yield from ((f"{own}_{name}", stat.mean) for name, stat in gpu.figures.items())
        yield from ((f"{own}_reason_{reason}", share) for reason, share in gpu.reasons.items())


def _gpu_name(index: int, count: int) -> str:
    """What names of one GPU begin with: its number too, where there are several."""
    return "gpu" if count == 1 else f"gpu_{index}"


def _from_run(run: Run) -> Iterator[tuple[str, float]]:
    for name in ("own_cpus", "others_cpus", "cpu_throttled_fraction"):
        if isinstance(fact := getattr(run, name), Known):
            yield name, fact.value
    gpus = run.gpus.value_or(())
    for gpu in gpus:
        own = _gpu_name(gpu.index, len(gpus))
        facts = {
            "clock_hz": gpu.clock_hz,
            "busy": gpu.busy,
            "memory_busy": gpu.memory_busy,
            "temperature_c": gpu.temperature_max_c,
            "power_w": gpu.power_max_w,
            "vram_used_bytes": gpu.vram_used_max_bytes,
        }
        yield from ((f"{own}_{name}", fact.value) for name, fact in facts.items() if isinstance(fact, Known))


def _looked(machine: Machine) -> Iterator[tuple[str, float]]:
    """What was seen once, before; a GPU's clocks at rest say nothing, so they are not among it."""
    memory, cpu = machine.memory, machine.cpu
    facts = {
        "ram_read_bytes_per_s": memory.read_bytes_per_s,
        "memory_available_bytes": memory.available_bytes,
        "swap_used_bytes": memory.swap_used_bytes,
        "others_cpus": machine.load.busy_cpus,
        "cpu_temperature_c": cpu.temperature_c,
    }
    yield from ((name, fact.value) for name, fact in facts.items() if isinstance(fact, Known))
    gpus = machine.gpus.value_or(())[:_MOST_GPUS]
    for gpu in gpus:
        if isinstance(gpu.vram_free_bytes, Known):
            yield f"{_gpu_name(gpu.index, len(gpus))}_vram_free_bytes", gpu.vram_free_bytes.value


_NAMES = {
    "runtime.version": "runtime's version",
    "driver": "GPU driver",
    "machine.system.kernel": "kernel",
    "machine.system.version": "operating system",
    "cpu": "processor",
    "gpus": "GPU",
    "model_bytes": "size of the model file",
    "runtime.threads": "number of threads",
    "runtime.threads_batch": "number of threads for prompts",
    "runtime.context_length": "context",
    "runtime.gpu_layers": "number of layers on the GPU",
    "runtime.gpu_layers_set": "number of layers asked for on the GPU",
    "runtime.kv_type_k": "type of the KV cache (keys)",
    "runtime.kv_type_v": "type of the KV cache (values)",
    "runtime.ubatch": "micro-batch",
    "runtime.build_features": "instruction sets of the build",
    "machine.cpu.quota_cpus": "CPU quota",
    "machine.cpu.governor": "governor of the CPU's clock",
    "test.decode": "test of decoding",
    "test.prefill": "test of the prompt",
}
_WHY = {
    "threads": "one thread for each physical core is best; more wait for each other",
    "context_length": "a larger context takes memory that layers could have",
    "gpu_layers": "every layer in main memory is read at its speed",
    "gpu_layers_set": "every layer in main memory is read at its speed",
    "threads_batch": "prompts are read by so many threads",
    "kv_type_k": "a quantised cache is smaller and must be unpacked",
    "kv_type_v": "a quantised cache is smaller and must be unpacked",
    "flash_attention": "attention over a long context takes longer without it",
    "ubatch": "prompts are read in pieces of this size",
    "batch": "prompts are read in pieces of this size",
    "quant": "every token reads the weights: fewer bits are fewer bytes",
    "slots": "slots share the context, and requests in them share the speed",
    "governor": "a saving governor keeps the CPU's clock low",
    "power_limit_w": "a lower limit of power means lower clocks",
    "pcie_width": "fewer lanes carry less",
    "split_mode": "GPUs take turns, or work on every layer together",
    "backends": "another backend has other kernels",
    "quota_cpus": "a container may not use more processors than this",
    "load_mode": "how the file is read decides where its pages lie",
    "speculative": "drafted tokens are checked together",
    "eager": "without graphs every kernel is launched by itself",
}
_UNIT = re.compile(r"_(bytes_per_s|bytes|hz|w|c|cpus|per_s|share|fraction)$")
_SCALES = {
    "bytes_per_s": (1e-9, " GB/s"),
    "bytes": (1 / 1024**3, " GiB"),
    "hz": (1e-6, " MHz"),
    "w": (1.0, " W"),
    "c": (1.0, " °C"),
    "cpus": (1.0, " processors"),
    "per_s": (1.0, " per second"),
}


class Telling(NamedTuple):
    """When a condition is another one: by a share of it and by an amount, and which way is the worse."""

    share: float
    amount: float
    why: str
    more_is_worse: bool | None = None  # None where neither way is: it shows something and causes nothing


_CONDITIONS = {
    "memory_clock_hz": Telling(0.03, 1e7, "every token reads the weights at the memory's clock", more_is_worse=False),
    "clock_hz": Telling(0.05, 5e7, "a lower clock computes and reads slower", more_is_worse=False),
    "others_cpus": Telling(0.2, 0.3, "other programs take processors and memory bandwidth", more_is_worse=True),
    "ram_read_bytes_per_s": Telling(0.2, 1e9, "weights in main memory are read at this speed", more_is_worse=False),
    "vram_free_bytes": Telling(0.1, 2**28, "less may have fitted on the GPU", more_is_worse=False),
    "swap_used_bytes": Telling(0.2, 2**28, "pages of the model may lie on disk", more_is_worse=True),
    "swap_in_bytes_per_s": Telling(0.2, 1e6, "pages come back from disk", more_is_worse=True),
    "disk_read_bytes_per_s": Telling(0.3, 2e7, "weights may be read from disk", more_is_worse=True),
    "major_faults_per_s": Telling(0.3, 20.0, "pages of the model are read from disk", more_is_worse=True),
    "throttled_share": Telling(0.2, 0.02, "a quota holds its threads back", more_is_worse=True),
    "throttled_fraction": Telling(0.2, 0.02, "a quota holds its threads back", more_is_worse=True),
    "temperature_c": Telling(0.1, 8.0, "a hot chip lowers its clock", more_is_worse=True),
    "power_w": Telling(0.1, 10.0, "less power is drawn where less is computed", None),
}


def plain_value(fact: str, value: str) -> str:
    """Its value with its unit."""
    unit = _UNIT.search(fact)
    try:
        return _amount(unit[1], float(value)) if unit else value
    except ValueError:
        return value


def _amount(unit: str, value: float) -> str:
    if unit in ("share", "fraction"):
        return f"{value:.0%}"
    scale, word = _SCALES.get(unit, (1.0, ""))
    return f"{value * scale:,.4g}{word}"


Kind = Literal["method", "subject", "version", "setting", "condition"]
"""How it was measured, what was measured, versions, settings, and what the machine was like."""
_VERSIONS = {
    "runtime.version": "a release may change a kernel, a default, or where a model is placed",
    "driver": "the compiler of the kernels and the management of the clocks come with the driver",
    "machine.system.kernel": "it schedules the threads and hands out the memory",
    "machine.system.version": "drivers and libraries come with it",
    "runtime.build_features": "other instructions are used",
    "runtime.build_architectures": "kernels may be compiled for another GPU",
    "runtime.build_type": "a build that is not optimised is many times slower",
}
"""Changes that nobody sets by a knob; the first is of the runtime itself."""
_METHOD = (TOOL, *TESTS.values())
_SAME_AS_SUBJECT = ("machine.cpu.model", "machine.cpu.physical_cores", "model.weights_bytes")
"""Settings that say again what the benchmark has a field for."""
RUNTIME_VERSION = "runtime.version"


class Change(Facts, frozen=True, kw_only=True):
    """One thing that is not as it was."""

    fact: str
    name: str
    """In plain words."""
    before: str
    after: str
    why: str = ""
    """Why it may matter."""
    kind: Kind
    worse: bool | None = None
    """Of a condition: whether it makes it slower, or faster; None where it only shows something, or can't be told."""


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """Two benchmarks side by side: is it slower, what changed, what to suspect."""

    schema: str = "unslow.comparison/1"
    before: Bench
    comparison: Comparison
    changes: tuple[Change, ...]
    suspect: str
    """One sentence; empty where there is nothing to explain."""

    @property
    def verdict(self) -> Verdict:
        """Of the figures that matter most."""
        return self.comparison.verdict


class BenchResult(NamedTuple):
    """A benchmark, and whatever else was asked about it."""

    bench: Bench
    parts: Parts | None = None
    compared: Compared | None = None
    not_compared: str = ""  # Why it was not held against another, though that was asked for
    unwritten: UserError | None = None  # What went wrong with a file that was asked for


def condition_change(fact: str, before: float, after: float) -> Change | None:
    """The condition in words where it differs by more than it does from minute to minute, else None."""
    kind = next((kind for kind in _CONDITIONS if fact.endswith(kind)), None)
    if kind is None:
        return None
    telling, apart = _CONDITIONS[kind], abs(after - before)
    if apart < telling.amount or apart < telling.share * max(before, after):
        return None
    unit = _UNIT.search(fact)
    a, b = (_amount(unit[1] if unit else "", value) for value in (before, after))
    name = _UNIT.sub("", fact).replace("_", " ").replace("gpu", "GPU").replace("vram", "memory")
    name = name.replace("cpu", "CPU").replace("ram read", "speed of main memory")
    name = "other programs" if fact.endswith("others_cpus") else name
    worse = None if telling.more_is_worse is None else telling.more_is_worse == (after > before)
    return Change(fact=fact, name=name, before=a, after=b, why=telling.why, kind="condition", worse=worse)


def changes_between(before: Bench, after: Bench) -> tuple[Change, ...]:
    """Everything that is known of both and differs, the most telling first."""
    both = [name for name in after.conditions if name in before.conditions]
    conditions = (condition_change(name, before.conditions[name], after.conditions[name]) for name in both)
    return (
        *_method(before, after),
        *_subject_and_versions(before, after),
        *_settings(before, after),
        *(change for change in conditions if change),
    )


def _method(before: Bench, after: Bench) -> Iterator[Change]:
    """How it was measured; a benchmark without a word on the tool is this program's own."""
    tools = [bench.settings.get(TOOL, "unslow") for bench in (before, after)]
    if tools[0] != tools[1]:
        why = "llama-bench times the engine alone: no server, no sampler, no stream"
        yield Change(fact=TOOL, name="measured with", before=tools[0], after=tools[1], why=why, kind="method")
    elif before.protocol != after.protocol:
        why = "answers and prompts of another length"
        yield _of("protocol", before.protocol, after.protocol, why, "method")
    for name in TESTS.values():
        old, new = before.settings.get(name, ""), after.settings.get(name, "")
        if old and new and old != new:
            yield _of(name, old, new, "another number of tokens has another speed", "method")


def _subject_and_versions(before: Bench, after: Bench) -> Iterator[Change]:
    """The machine, the model and the runtime; an unknown one is not another one."""
    old, new = before.machine, after.machine
    version = before.runtime_version if before.runtime == after.runtime else ""
    pairs = (
        ("runtime", before.runtime, after.runtime, "another program"),
        ("model", before.model, after.model, "another model reads other weights"),
        ("model_bytes", before.model_bytes, after.model_bytes, "another file: every token reads the weights"),
        ("cpu", old.cpu, new.cpu, "another machine"),
        ("cores", old.cores, new.cores, "another machine, or a part of it"),
        ("gpus", ", ".join(old.gpus), ", ".join(new.gpus), "another machine"),
        (RUNTIME_VERSION, version, after.runtime_version, ""),
        ("driver", ", ".join(old.drivers), ", ".join(new.drivers), ""),
        ("machine.system.kernel", old.kernel, new.kernel, ""),
        *((fact, before.settings.get(fact), after.settings.get(fact), "") for fact in list(_VERSIONS)[3:]),
    )
    for fact, a, b, why in pairs:
        if a and b and a != b:
            yield _of(fact, str(a), str(b), why or _VERSIONS[fact], "subject" if why else "version")


def _settings(before: Bench, after: Bench) -> Iterator[Change]:
    """Settings that both know; those that were told apart already are left out."""
    for fact in (name for name in after.settings if name in before.settings):
        told = fact in (*_VERSIONS, *_METHOD, *_SAME_AS_SUBJECT) or fact.endswith((".driver", ".name"))
        old, new = before.settings[fact], after.settings[fact]
        if not told and old != new:
            yield _of(fact, old, new, _WHY.get(fact.rpartition(".")[2], ""), "setting")


def _of(fact: str, before: str, after: str, why: str, kind: Kind) -> Change:
    name = _NAMES.get(fact) or _UNIT.sub("", fact.rpartition(".")[2]).replace("_", " ")
    a, b = plain_value(fact, before), plain_value(fact, after)
    return Change(fact=fact, name=name, before=a, after=b, why=why, kind=kind)


_FOLLOWS = {
    "runtime.threads_batch": ("runtime.threads",),
    "runtime.kv_type_v": ("runtime.kv_type_k",),
    "runtime.gpu_layers": ("runtime.gpu_layers_set",),
    "runtime.context_per_slot": ("runtime.context_length", "runtime.slots"),
    "runtime.output_on_gpu": ("runtime.gpu_layers_set", "runtime.gpu_layers"),
}
"""What changes along with another setting, and so is no second change."""


def suspect(comparison: Comparison, changes: Sequence[Change]) -> str:
    """One sentence on what may lie behind the difference; empty where there is none to explain."""
    if comparison.verdict in ("same", "cannot_tell"):
        return ""
    if found := _not_comparable(changes):
        return found
    facts = {change.fact for change in changes}
    own = [change for change in changes if change.kind in ("version", "setting")]
    made = [change for change in own if not facts.intersection(_FOLLOWS.get(change.fact, ()))]
    slower = comparison.verdict == "slower"
    also = [change for change in changes if change.worse is slower]
    if len(made) > 1:
        names = _listed([change.name for change in made])
        return f"Several things changed at once ({names}), and can't be told apart: put them back one at a time."
    if made:
        return _alone(made[0], also, slower=slower)
    if also:
        return f"No version or setting that is known changed, but the machine was different: {_then(also)}."
    return "No version or setting that is known changed, and nothing that was seen of the machine explains it."


def _not_comparable(changes: Sequence[Change]) -> str:
    for kind in ("method", "subject"):
        if one := next((change for change in changes if change.kind == kind), None):
            told = f"({one.name}: {one.before}, then {one.after})"
            if kind == "method":
                return f"They were not measured in the same way {told}: {one.why}."
            return f"It is not the same thing that was measured {told}."
    return ""


def _alone(change: Change, also: Sequence[Change], *, slower: bool) -> str:
    what = f"{change.name} changed, from {change.before} to {change.after}"
    if also:
        return f"The {what}, but the machine was different too ({_then(also)}): measure again when it is as before."
    if change.fact == RUNTIME_VERSION:
        verdict = "it is the one to suspect" if slower else "it is what helped"
        return f"Only the {what}: {verdict}; measure {change.before} once more to be sure."
    return f"Only the {what}: {change.why or 'look there first'}."


def _then(changes: Sequence[Change]) -> str:
    return _listed([f"{one.name} {one.before}, now {one.after}" for one in changes])


def _listed(words: Sequence[str]) -> str:
    most = 4
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def earlier_of(before: Bench, after: Bench, comparison: Comparison, changes: Sequence[Change]) -> Fact[Earlier]:
    """The earlier benchmark as a fact of the later one's run, for the causes; unknown where decoding is not in both."""
    decode = next((one for one in comparison.differences if one.metric == DECODE), None)
    if decode is None:
        return not_found("the earlier benchmark has no speed of decoding")
    also = [change.name for change in changes if change.fact != RUNTIME_VERSION and change.worse is not False]
    earlier = Earlier(
        bench=before.id,
        taken_at=before.taken_at,
        decode_tokens_per_s=decode.before,
        now_tokens_per_s=decode.after,
        slower=decode.verdict == "slower",
        version=before.runtime_version,
        version_now=after.runtime_version,
        also_changed=tuple(also),
    )
    return measured(earlier, f"history of benchmarks: {before.id}")

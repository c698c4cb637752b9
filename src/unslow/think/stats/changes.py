"""What changed between two benchmarks, in plain words, and what of it to suspect."""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from unslow.facts.bench import DECODE, Bench, Comparison
from unslow.facts.bench import Change as Verdict
from unslow.facts.errors import UserError
from unslow.facts.machine import Facts
from unslow.facts.run import Earlier
from unslow.facts.values import Fact, measured, not_found
from unslow.think.stats.llama_bench import TESTS, TOOL
from unslow.think.stats.parts import Parts

Kind = Literal["method", "subject", "version", "setting", "condition"]
"""How it was measured, what was measured, versions, settings, and what the machine was like."""
RUNTIME_VERSION = "runtime.version"
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
_FOLLOWS = {
    "runtime.threads_batch": ("runtime.threads",),
    "runtime.kv_type_v": ("runtime.kv_type_k",),
    "runtime.gpu_layers": ("runtime.gpu_layers_set",),
    "runtime.context_per_slot": ("runtime.context_length", "runtime.slots"),
    "runtime.output_on_gpu": ("runtime.gpu_layers_set", "runtime.gpu_layers"),
}
"""What changes along with another setting, and so is no second change."""
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

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
from unslow.facts.values import Fact, measured_fact, not_found
from unslow.think.stats.llama_bench import TESTS, TOOL
from unslow.think.stats.parts import Parts

_MOST_NAMED = 4
Kind = Literal["method", "subject", "version", "setting", "condition"]
"""How it was measured, what was measured, versions, settings, and what the machine was like."""
RUNTIME_VERSION = "runtime.version"
_VERSIONS = {
    "runtime.version": "a release may change kernels, defaults or the placement of a model",
    "driver": "the driver compiles kernels and manages clocks",
    "machine.system.kernel": "it schedules threads and allocates memory",
    "machine.system.version": "drivers and libraries come with it",
    "runtime.build_features": "different instructions are used",
    "runtime.build_architectures": "kernels may be compiled for another GPU",
    "runtime.build_type": "an unoptimized build is many times slower",
}
"""Changes that are not a setting; the first is of the runtime itself."""
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
    "runtime.version": "runtime version",
    "driver": "GPU driver",
    "machine.system.kernel": "kernel",
    "machine.system.version": "operating system",
    "cpu": "processor",
    "gpus": "GPU",
    "model_bytes": "model file size",
    "runtime.threads": "thread count",
    "runtime.threads_batch": "prefill thread count",
    "runtime.context_length": "context",
    "runtime.gpu_layers": "GPU layers",
    "runtime.gpu_layers_set": "requested GPU layers",
    "runtime.kv_type_k": "KV cache type (keys)",
    "runtime.kv_type_v": "KV cache type (values)",
    "runtime.ubatch": "micro-batch",
    "runtime.build_features": "instruction sets of the build",
    "machine.cpu.quota_cpus": "CPU quota",
    "machine.cpu.governor": "CPU frequency governor",
    "test.decode": "decode test",
    "test.prefill": "prefill test",
}
_WHY = {
    "threads": "one thread per physical core is best; more of them wait for each other",
    "context_length": "a larger context takes memory that layers could use",
    "gpu_layers": "layers in host memory are read at its bandwidth",
    "gpu_layers_set": "layers in host memory are read at its bandwidth",
    "threads_batch": "it sets the number of prefill threads",
    "kv_type_k": "a quantized cache is smaller but must be unpacked",
    "kv_type_v": "a quantized cache is smaller but must be unpacked",
    "flash_attention": "attention over a long context takes longer without it",
    "ubatch": "prefill runs in batches of this size",
    "batch": "prefill runs in batches of this size",
    "quant": "every token reads the weights: fewer bits mean fewer bytes",
    "slots": "slots share the context, and their requests share the speed",
    "governor": "a power-saving governor keeps the CPU clock low",
    "power_limit_w": "a lower power limit means lower clocks",
    "pcie_width": "fewer lanes mean less bandwidth",
    "split_mode": "GPUs work in turn (layer split) or together (tensor parallel)",
    "backends": "another backend has different kernels",
    "quota_cpus": "it limits the CPUs of a container",
    "load_mode": "the load mode decides where the file's pages are",
    "speculative": "drafted tokens are verified together",
    "eager": "without graphs every kernel is launched separately",
}
_UNIT = re.compile(r"_(bytes_per_s|bytes|hz|w|c|cpus|per_s|share|fraction)$")
_SCALES = {
    "bytes_per_s": (1e-9, " GB/s"),
    "bytes": (1 / 1024**3, " GiB"),
    "hz": (1e-6, " MHz"),
    "w": (1.0, " W"),
    "c": (1.0, " °C"),
    "cpus": (1.0, " CPUs"),
    "per_s": (1.0, "/s"),
}


class Telling(NamedTuple):
    """When a condition is another one: by a share of it and by an amount, and which way is the worse."""

    share: float
    amount: float
    why: str
    more_is_worse: bool | None = None  # None where neither way is: it shows something and causes nothing


_CONDITIONS = {
    "memory_clock_hz": Telling(0.03, 1e7, "every token reads the weights at the memory clock", more_is_worse=False),
    "clock_hz": Telling(0.05, 5e7, "a lower clock computes and reads slower", more_is_worse=False),
    "others_cpus": Telling(0.2, 0.3, "other programs take CPU time and memory bandwidth", more_is_worse=True),
    "ram_read_bytes_per_s": Telling(0.2, 1e9, "weights in host memory are read at this speed", more_is_worse=False),
    "vram_free_bytes": Telling(0.1, 2**28, "less may have fitted on the GPU", more_is_worse=False),
    "swap_used_bytes": Telling(0.2, 2**28, "pages of the model may be on disk", more_is_worse=True),
    "swap_in_bytes_per_s": Telling(0.2, 1e6, "pages come back from disk", more_is_worse=True),
    "disk_read_bytes_per_s": Telling(0.3, 2e7, "weights may be read from disk", more_is_worse=True),
    "major_faults_per_s": Telling(0.3, 20.0, "pages of the model are read from disk", more_is_worse=True),
    "throttled_share": Telling(0.2, 0.02, "a CPU quota throttles its threads", more_is_worse=True),
    "throttled_fraction": Telling(0.2, 0.02, "a CPU quota throttles its threads", more_is_worse=True),
    "temperature_c": Telling(0.1, 8.0, "a hot chip lowers its clock", more_is_worse=True),
    "power_w": Telling(0.1, 10.0, "less power is drawn where less is computed", None),
}


class Change(Facts, frozen=True, kw_only=True):
    """One thing that is not as it was."""

    fact: str
    name: str  # In plain words
    before: str
    after: str
    why: str = ""  # Why it may matter
    kind: Kind
    worse: bool | None = None
    """Of a condition: whether it makes it slower, or faster; None where it only shows something, or can't be told."""


class BenchComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two benchmarks side by side: is it slower, what changed, what to suspect."""

    schema: str = "unslow.comparison/1"
    before: Bench
    comparison: Comparison
    changes: tuple[Change, ...]
    suspect: str  # One sentence; empty where there is nothing to explain

    @property
    def verdict(self) -> Verdict:
        """Of the figures that matter most."""
        return self.comparison.verdict


class BenchResult(NamedTuple):
    """A benchmark, and whatever else was asked about it."""

    bench: Bench
    parts: Parts | None = None
    compared: BenchComparison | None = None
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
        why = "prompts and answers have different lengths"
        yield _change_of("protocol", before.protocol, after.protocol, why, "method")
    for name in TESTS.values():
        old, new = before.settings.get(name, ""), after.settings.get(name, "")
        if old and new and old != new:
            yield _change_of(name, old, new, "a different number of tokens gives a different speed", "method")


def _subject_and_versions(before: Bench, after: Bench) -> Iterator[Change]:
    """The machine, the model and the runtime; an unknown one is not another one."""
    old, new = before.machine, after.machine
    version = before.runtime_version if before.runtime == after.runtime else ""
    pairs = (
        ("runtime", before.runtime, after.runtime, "another program"),
        ("model", before.model, after.model, "another model reads other weights"),
        ("model_bytes", before.model_bytes, after.model_bytes, "another file: every token reads the weights"),
        ("cpu", old.cpu, new.cpu, "another machine"),
        ("cores", old.cores, new.cores, "another machine, or fewer of its cores"),
        ("gpus", ", ".join(old.gpus), ", ".join(new.gpus), "another machine"),
        (RUNTIME_VERSION, version, after.runtime_version, ""),
        ("driver", ", ".join(old.drivers), ", ".join(new.drivers), ""),
        ("machine.system.kernel", old.kernel, new.kernel, ""),
        *((fact, before.settings.get(fact), after.settings.get(fact), "") for fact in list(_VERSIONS)[3:]),
    )
    for fact, a, b, why in pairs:
        if a and b and a != b:
            yield _change_of(fact, str(a), str(b), why or _VERSIONS[fact], "subject" if why else "version")


def _settings(before: Bench, after: Bench) -> Iterator[Change]:
    for fact in (name for name in after.settings if name in before.settings):
        told = fact in (*_VERSIONS, *_METHOD, *_SAME_AS_SUBJECT) or fact.endswith((".driver", ".name"))
        old, new = before.settings[fact], after.settings[fact]
        if not told and old != new:
            yield _change_of(fact, old, new, _WHY.get(fact.rpartition(".")[2], ""), "setting")


def _change_of(fact: str, before: str, after: str, why: str, kind: Kind) -> Change:
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
    name = name.replace("cpu", "CPU").replace("ram read", "host memory bandwidth")
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
    for kind in ("method", "subject"):
        if other := next((change for change in changes if change.kind == kind), None):
            told = f"({other.name}: {other.before}, then {other.after})"
            if kind == "method":
                return f"The two were not measured in the same way {told}: {other.why}."
            return f"The two did not measure the same thing {told}."
    facts = {change.fact for change in changes}
    own = [change for change in changes if change.kind in ("version", "setting")]
    made = [change for change in own if not facts.intersection(_FOLLOWS.get(change.fact, ()))]
    slower = comparison.verdict == "slower"
    state = _list_words([f"{one.name} {one.before}, now {one.after}" for one in changes if one.worse is slower])
    if len(made) > 1:
        names = _list_words([change.name for change in made])
        return f"Several things changed at once ({names}), so the cause is unclear: revert them one at a time."
    if not made and state:
        return f"No known version or setting changed, but the machine was in a different state: {state}."
    if not made:
        return "No known version or setting changed, and no measured condition of the machine explains it."
    what = f"{made[0].name} changed, from {made[0].before} to {made[0].after}"
    if state:
        return f"The {what}, but so did the state of the machine ({state}): restore it and measure again."
    if made[0].fact == RUNTIME_VERSION:
        likely = "it is the likely cause" if slower else "it is the likely reason"
        return f"Only the {what}: {likely}; measure {made[0].before} again to be sure."
    return f"Only the {what}: {made[0].why or 'look there first'}."


def _list_words(words: Sequence[str]) -> str:
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return ", ".join(words[:_MOST_NAMED]) + more


def earlier_of(before: Bench, after: Bench, comparison: Comparison, changes: Sequence[Change]) -> Fact[Earlier]:
    """The earlier benchmark as a fact of the later one's run, for the causes; unknown where decoding is not in both."""
    decode = next((one for one in comparison.differences if one.metric == DECODE), None)
    if decode is None:
        return not_found("the earlier benchmark has no decode speed")
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
    return measured_fact(earlier, f"benchmark history: {before.id}")

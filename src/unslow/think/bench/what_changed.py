"""What changed between two benchmarks, the most telling first."""

from collections.abc import Iterator
from typing import Literal

from unslow.facts.bench import Bench
from unslow.facts.machine import Facts
from unslow.think.bench.change_words import condition_words, plain_name, plain_value, setting_why
from unslow.think.bench.llama_bench import TESTS, TOOL

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


def changed(before: Bench, after: Bench) -> tuple[Change, ...]:
    """Everything that is known of both and differs, the most telling first."""
    return (
        *_method(before, after),
        *_subject(before, after),
        *_versions(before, after),
        *_settings(before, after),
        *_conditions(before, after),
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


def _subject(before: Bench, after: Bench) -> Iterator[Change]:
    """The machine, the model and the runtime; an unknown one is not another one."""
    old, new = before.machine, after.machine
    pairs = (
        ("runtime", before.runtime, after.runtime, "another program"),
        ("model", before.model, after.model, "another model reads other weights"),
        ("model_bytes", before.model_bytes, after.model_bytes, "another file: every token reads the weights"),
        ("cpu", old.cpu, new.cpu, "another machine"),
        ("cores", old.cores, new.cores, "another machine, or a part of it"),
        ("gpus", ", ".join(old.gpus), ", ".join(new.gpus), "another machine"),
    )
    for fact, a, b, why in pairs:
        if a and b and a != b:
            yield _of(fact, str(a), str(b), why, "subject")


def _versions(before: Bench, after: Bench) -> Iterator[Change]:
    if before.runtime == after.runtime and _differ(before.runtime_version, after.runtime_version):
        why = _VERSIONS[RUNTIME_VERSION]
        yield _of(RUNTIME_VERSION, before.runtime_version, after.runtime_version, why, "version")
    old_driver, new_driver = (", ".join(bench.machine.drivers) for bench in (before, after))
    if _differ(old_driver, new_driver):
        yield _of("driver", old_driver, new_driver, _VERSIONS["driver"], "version")
    if _differ(before.machine.kernel, after.machine.kernel):
        why = _VERSIONS["machine.system.kernel"]
        yield _of("machine.system.kernel", before.machine.kernel, after.machine.kernel, why, "version")
    for fact in list(_VERSIONS)[3:]:
        old, new = before.settings.get(fact, ""), after.settings.get(fact, "")
        if _differ(old, new):
            yield _of(fact, old, new, _VERSIONS[fact], "version")


def _settings(before: Bench, after: Bench) -> Iterator[Change]:
    """Settings that both know; those that were told apart already are left out."""
    for fact in (name for name in after.settings if name in before.settings):
        told = fact in (*_VERSIONS, *_METHOD, *_SAME_AS_SUBJECT) or fact.endswith((".driver", ".name"))
        old, new = before.settings[fact], after.settings[fact]
        if not told and old != new:
            yield _of(fact, old, new, setting_why(fact), "setting")


def _conditions(before: Bench, after: Bench) -> Iterator[Change]:
    for name in (name for name in after.conditions if name in before.conditions):
        old, new = before.conditions[name], after.conditions[name]
        if words := condition_words(name, old, new):
            yield Change(
                fact=name,
                name=words.name,
                before=words.before,
                after=words.after,
                why=words.why,
                kind="condition",
                worse=words.worse,
            )


def _differ(before: str, after: str) -> bool:
    return bool(before and after and before != after)


def _of(fact: str, before: str, after: str, why: str, kind: Kind) -> Change:
    a, b = plain_value(fact, before), plain_value(fact, after)
    return Change(fact=fact, name=plain_name(fact), before=a, after=b, why=why, kind=kind)

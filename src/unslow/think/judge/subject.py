"""What a report says of its subject beside the diagnosis: names, the machine, what is known of it, notes."""

import re
from operator import attrgetter
from typing import Any

import msgspec

from unslow.catalog.bug_reports import remark_phrases
from unslow.facts.snapshot import Snapshot
from unslow.facts.values import Known, Origin, Unknown
from unslow.think.case.view import CaseView
from unslow.think.plan.free_memory import oversized_context
from unslow.think.report import Evidence, SubjectReport

LONGEST = 100
_WORDS_OF_PEOPLE = ("account.remarks", "account.comparisons")
_BEFORE = 0.6  # How much of the room stands before the words that matter: people say first what it is about


def with_quotes(case: CaseView, report: SubjectReport) -> SubjectReport:
    """The report with every long text of the person's cut to a quote, wherever it stands."""
    shorter = dict[str, tuple[str, str]]()
    for remark in case.account.remarks.value_or(()):
        phrases = remark_phrases().get(remark.topic)
        topic = phrases.says.search(remark.text.lower()) if phrases else None
        quote = excerpt(remark.text, *(topic.span() if topic else ()))
        shorter[remark.text] = (f'"{quote}"', remark.source)
    for comparison in case.account.comparisons.value_or(()):
        if comparison.text:
            shorter[comparison.text] = (f'"{excerpt(comparison.text)}"', comparison.source)
    if not shorter:
        return report
    findings = []
    for finding in _all_within(report.findings, shorter):
        evidence = tuple(
            msgspec.structs.replace(item, value=shorter[item.value][0])
            if item.fact in _WORDS_OF_PEOPLE and item.value in shorter
            else item
            for item in finding.evidence
        )
        findings.append(msgspec.structs.replace(finding, evidence=evidence))
    return msgspec.structs.replace(
        report,
        findings=tuple(findings),
        cannot_tell=_all_within(report.cannot_tell, shorter),
        ruled_out=_all_within(report.ruled_out, shorter),
    )


def _all_within(items: tuple[Any, ...], shorter: dict[str, tuple[str, str]]) -> Any:
    """The items with the longest text of a person's that their reason holds cut to its quote."""
    longest_first, cut = sorted(shorter, key=len, reverse=True), []
    for item in items:
        because, text = item.because, next((text for text in longest_first if text in item.because), "")
        if text:
            because = because.replace(text, "{} ({})".format(*shorter[text]), 1)
        cut.append(msgspec.structs.replace(item, because=because))
    return tuple(cut)


def excerpt(text: str, start: int = 0, end: int = 0) -> str:
    """At most about a hundred letters around a place, at word borders, with dots where something is left out."""
    text = " ".join(text.split())
    if len(text) <= LONGEST:
        return text
    first = max(0, min(start - int(_BEFORE * (LONGEST - min(LONGEST, end - start))), len(text) - LONGEST))
    last = min(len(text), first + LONGEST)
    if first:
        first = text.find(" ", first, last) + 1 or first
    if last < len(text):
        last = max(text.rfind(" ", first, last), first + 1)
    left, right = "… " if first else "", " …" if last < len(text) else ""
    return f"{left}{text[first:last].strip(' ,;:')}{right}"


PATHS = (
    "runtime.name", "runtime.version", "machine.system.name", "machine.system.container", "machine.cpu.model",
    "machine.cpu.physical_cores", "machine.cpu.logical_cpus", "machine.cpu.quota_cpus", "machine.memory.total_bytes",
    "machine.memory.kind", "model.name", "model.quant", "model.parameters", "model.weights_bytes",
    "runtime.context.length", "runtime.placement.gpu_layers_set", "runtime.placement.gpu_layers",
    "runtime.placement.layers", "runtime.memory.vram_share", "runtime.cache.type_k",
    "runtime.compute.flash_attention", "runtime.compute.threads", "runtime.scheduling.slots",
    "runtime.placement.tensor_parallel", "runtime.placement.split_mode", "runtime.compute.quantization",
    "runtime.compute.eager", "runtime.placement.gpu_refused", "runtime.memory.available_bytes",
    "runtime.memory.asked_bytes", "runtime.sampling.draft_acceptance", "runtime.cache.usage",
    "run.decode_tokens_per_s", "run.prefill_tokens_per_s", "run.load_s", "account.version_before",
    "account.version_since", "account.slowdown",
)  # fmt: skip
SHORT_CONTEXT = 4096
"""Tokens: the least that Ollama gives a conversation by default; with fewer, a few turns or one document fill it."""
_FOLDERS = re.compile(r"^(?:/|[A-Za-z]:\\)(?:[^/\\]*[/\\])*(?=[^/\\])")
"""Of a model whose name is the path of its folder, as MLX-LM and vLLM are told it: what stands before the last part."""


def subject_name(case: CaseView) -> tuple[str, str]:
    """What the subject is called in a report: its runtime and its model."""
    model = _name(case.model.name, case.model.quant)
    return _name(case.runtime.name, case.runtime.version), _FOLDERS.sub("", model)


def _name(*parts: Known[str] | Unknown) -> str:
    return " ".join(p.value for p in parts if isinstance(p, Known)) or "unknown"


def device_names(case: CaseView) -> tuple[str, ...]:
    """What it runs on: the GPUs, then the CPU."""
    names = [g.name.value_or("a GPU") for g in case.gpus.usable]
    return (*names, case.machine.cpu.model.value_or("CPU" if names else "unknown hardware"))


def machine_line(snapshot: Snapshot) -> dict[str, str | int | float | bool]:
    """The machine in a few words, for the head of a report."""
    machine = snapshot.machine
    gpus = machine.gpus.value_or(())
    facts: dict[str, Known[str] | Known[int] | Known[float] | Known[bool] | Unknown] = {
        "cpu": machine.cpu.model,
        "physical_cores": machine.cpu.physical_cores,
        "memory_bytes": machine.memory.total_bytes,
        "ram_read_bytes_per_s": machine.memory.read_bytes_per_s,
        "system": machine.system.name,
        "container": machine.system.container,
    }
    line: dict[str, str | int | float | bool] = {k: f.value for k, f in facts.items() if isinstance(f, Known)}
    if gpus:
        line["gpus"] = ", ".join(g.name.value_or("unnamed GPU") for g in gpus)
    return line


def known_facts(case: CaseView) -> tuple[Evidence, ...]:
    """What was understood of a report: what is known of the facts that matter most, each with its origin and line."""
    facts = [(path, fact, fact.value) for path in PATHS if isinstance(fact := attrgetter(path)(case), Known)]
    gpus = case.machine.gpus
    if isinstance(gpus, Known) and gpus.value:
        names = ", ".join(gpu.name.value_or("unnamed GPU") for gpu in gpus.value)
        facts.insert(2, ("machine.gpus", gpus, names))
    return tuple(
        Evidence(
            fact=path,
            value=value if isinstance(value, str | int | float | bool) else str(value),
            reference=None,
            origin=str(fact.origin),
            source=fact.source,
        )
        for path, fact, value in facts
    )


def notes_on(case: CaseView) -> tuple[str, ...]:
    """What to know of the subject that is no cause of slowness."""
    if not case.runtime.embedded:
        return tuple(filter(None, (_past_speed(case), oversized_context(case), _divided_context(case))))
    gpu = " It does not use the GPU." if case.gpus.usable else ""
    return (f"This is the embedded engine on a synthetic model: it shows what the CPU and RAM can do.{gpu}",)


def _past_speed(case: CaseView) -> str:
    """Whose speeds these are, where a server that was looked at was not measured."""
    speed, used = case.run.decode_tokens_per_s, next((load.used_until for load in case.engine.own_loads[::-1]), "")
    is_looked_at = isinstance(case.runtime.process.pid, Known)
    if not isinstance(speed, Known) or speed.origin is not Origin.REPORTED or not is_looked_at:
        return ""
    when = f", the last of them at {used}" if used else ""
    return f"The speeds come from requests in its log{when} [{speed.source}]; nothing was measured now."


def _divided_context(case: CaseView) -> str:
    """What each user has of a context that llama.cpp divides: with `-np N` and without `--kv-unified`."""
    runtime = case.runtime
    slots, unified = runtime.scheduling.slots.value_or(1), runtime.cache.unified.value_or(default=True)
    each = runtime.context.per_slot.value_or(runtime.context.length.value_or(SHORT_CONTEXT * slots) // max(1, slots))
    if not runtime.name.value_or("").endswith("llama.cpp") or slots <= 1 or unified or each >= SHORT_CONTEXT:
        return ""
    divided = f"The context of {each * slots:,} tokens is split across {slots} slots: each user gets {each:,}."
    return f"{divided} -c {SHORT_CONTEXT * slots} gives each {SHORT_CONTEXT:,}; --kv-unified shares one cache."

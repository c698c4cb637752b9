"""What a report says of its subject beside the diagnosis: names, the machine, what is known of it, notes."""

import re
from operator import attrgetter

from unslow.facts.snapshot import Case, Snapshot
from unslow.facts.values import Known, Origin, Unknown
from unslow.think.case.runtime import own_loads
from unslow.think.case.vram import gpus_of
from unslow.think.causes._memory_remedies import oversized_context
from unslow.think.report import Evidence

PATHS = (
    "runtime.name", "runtime.version", "machine.system.name", "machine.system.container", "machine.cpu.model",
    "machine.cpu.physical_cores", "machine.cpu.logical_cpus", "machine.cpu.quota_cpus", "machine.memory.total_bytes",
    "machine.memory.kind", "model.name", "model.quant", "model.parameters", "model.weights_bytes",
    "runtime.context_length", "runtime.gpu_layers_set", "runtime.gpu_layers", "runtime.layers", "runtime.vram_share",
    "runtime.kv_type_k", "runtime.flash_attention", "runtime.threads", "runtime.slots", "runtime.tensor_parallel",
    "runtime.split_mode", "runtime.quantization", "runtime.eager", "runtime.gpu_refused", "runtime.available_bytes",
    "runtime.asked_bytes", "runtime.draft_acceptance", "runtime.kv_usage", "run.decode_tokens_per_s",
    "run.prefill_tokens_per_s", "run.load_s", "account.version_before", "account.version_since", "account.slowdown",
)  # fmt: skip
SHORT_CONTEXT = 4096
"""Tokens: the least that Ollama gives a conversation by default; with fewer, a few turns or one document fill it."""
_FOLDERS = re.compile(r"^(?:/|[A-Za-z]:\\)(?:[^/\\]*[/\\])*(?=[^/\\])")
"""Of a model whose name is the path of its folder, as MLX-LM and vLLM are told it: what stands before the last part."""


def subject_name(case: Case) -> tuple[str, str]:
    """What the subject is called in a report: its runtime and its model."""
    model = _name(case.model.name, case.model.quant)
    return _name(case.runtime.name, case.runtime.version), _FOLDERS.sub("", model)


def _name(*parts: Known[str] | Unknown) -> str:
    return " ".join(p.value for p in parts if isinstance(p, Known)) or "unknown"


def device_names(case: Case) -> tuple[str, ...]:
    """What it runs on: the GPUs, then the CPU."""
    names = [g.name.value_or("a GPU") for g in gpus_of(case)]
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


def known_facts(case: Case) -> tuple[Evidence, ...]:
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


def notes_on(case: Case) -> tuple[str, ...]:
    """What to know of the subject that is no cause of slowness."""
    if not case.runtime.embedded:
        return tuple(filter(None, (_past_speed(case), oversized_context(case), _divided_context(case))))
    gpu = " It does not use the GPU." if gpus_of(case) else ""
    return (f"This is the embedded engine on a made-up model: it shows what the CPU and the memory give.{gpu}",)


def _past_speed(case: Case) -> str:
    """Whose speeds these are, where a server that was looked at was not measured."""
    speed, used = case.run.decode_tokens_per_s, next((load.used_until for load in own_loads(case)[::-1]), "")
    if not isinstance(speed, Known) or speed.origin is not Origin.REPORTED or not isinstance(case.runtime.pid, Known):
        return ""
    when = f", the last of them at {used}" if used else ""
    return f"The speeds are those of requests in its log{when} [{speed.source}]: nothing was measured now."


def _divided_context(case: Case) -> str:
    """What each user has of a context that llama.cpp divides: with `-np N` and without `--kv-unified`."""
    runtime = case.runtime
    slots, unified = runtime.slots.value_or(1), runtime.kv_unified.value_or(default=True)
    each = runtime.context_per_slot.value_or(runtime.context_length.value_or(SHORT_CONTEXT * slots) // max(1, slots))
    if not runtime.name.value_or("").endswith("llama.cpp") or slots <= 1 or unified or each >= SHORT_CONTEXT:
        return ""
    divided = f"The context of {each * slots:,} tokens is divided among {slots} slots: each user has {each:,}."
    return f"{divided} -c {SHORT_CONTEXT * slots} gives each {SHORT_CONTEXT:,}; --kv-unified shares one cache."

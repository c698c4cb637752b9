"""The few facts that say what a report is about, for a reader who wants to check what was understood."""

from typing import Any

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
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


def known_facts(case: Case) -> tuple[Evidence, ...]:
    """What is known of these, each with its origin and line."""
    gpus = case.machine.gpus
    items = [_evidence(path, _at(case, path)) for path in PATHS if isinstance(_at(case, path), Known)]
    if isinstance(gpus, Known) and gpus.value:
        names = ", ".join(gpu.name.value_or("unnamed GPU") for gpu in gpus.value)
        items.insert(
            2, Evidence(fact="machine.gpus", value=names, reference=None, origin=str(gpus.origin), source=gpus.source)
        )
    return tuple(items)


def _at(case: Case, path: str) -> Any:
    value: Any = case
    for step in path.split("."):
        value = getattr(value, step)
    return value


def _evidence(path: str, fact: Known[Any]) -> Evidence:
    value = fact.value if isinstance(fact.value, str | int | float | bool) else str(fact.value)
    return Evidence(fact=path, value=value, reference=None, origin=str(fact.origin), source=fact.source)

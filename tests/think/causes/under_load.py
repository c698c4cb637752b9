"""Cases with readings of the GPU while it computes, and cases that a person tells."""

from typing import Any

import msgspec
from cases import gpu_case, r, with_facts

from unslow.facts.account import Account, Comparison, Remark, Topic
from unslow.facts.run import GpuUnderLoad
from unslow.facts.snapshot import Case
from unslow.facts.values import told_fact


def at_work(speed: float, now: dict[str, Any] | None = None, **under: Any) -> Case:
    """A card with all of the model on it, what was sampled while it generated, and what it is in general."""
    sampled = {"busy": 0.95, "clock_hz": 1.2e9, "event_reasons": [], **under}
    case = with_facts(gpu_case(), {"run.decode_tokens_per_s": speed})
    gpu = {"clock_max_hz": 2.5e9, "power_limit_w": 450.0, "power_limit_default_w": 450.0, **(now or {})}
    case = with_facts(case, {f"machine.gpus.0.{name}": value for name, value in gpu.items()})
    return with_facts(case, {"run.gpus": (GpuUnderLoad(index=0, samples=20, **{k: r(v) for k, v in sampled.items()}),)})


def saying(
    topic: Topic | None = None, text: str = "", *, slow: str = "unknown", case: Case | None = None, denied: bool = False
) -> Case:
    """A case in which somebody tells one thing, and which phase they find slow."""
    case = case or Case()
    before = case.account.remarks.value_or(())
    said = (Remark(topic=topic, text=text or str(topic), source="report:1", denied=denied),) if topic else ()
    account = msgspec.structs.replace(
        case.account, remarks=told_fact((*before, *said), "report"), slow_metric=told_fact(slow, "report")
    )
    return msgspec.structs.replace(case, account=account)


def tried(
    slow: float, fast: float, *differs: Topic, metric: str = "decode", case: Case | None = None, text: str = ""
) -> Case:
    """A case in which somebody tried both ways."""
    found = Comparison(
        metric=metric, slow=slow, fast=fast, differs=differs, text=text or f"{fast} -> {slow}", source="report:2"
    )
    account = Account(
        remarks=told_fact((), "report"),
        comparisons=told_fact((found,), "report"),
        slow_metric=told_fact(metric, "report"),
    )
    return msgspec.structs.replace(case or Case(), account=account)

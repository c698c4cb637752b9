"""How many GPUs an instance has, and for how much of the time it answered somebody."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.vram import gpus_of
from unslow.think.adapt.who_computes import uses_no_gpu
from unslow.think.predict import DECODE
from unslow.think.report import SubjectReport


def gpus_held(case: Case) -> int | None:
    """How many GPUs the instance has for itself; None where nothing tells."""
    if isinstance(case.machine.gpus, Known):
        return len(gpus_of(case))
    if uses_no_gpu(case):
        return 0
    runtime = case.runtime
    if isinstance(runtime.tensor_parallel, Known):
        return int(runtime.tensor_parallel.value * runtime.pipeline_parallel.value_or(1)) or None
    return None


def worked_share(case: Case, report: SubjectReport) -> float | None:
    """The share of the window in which it answered somebody; None where nobody watched."""
    traffic = case.run.traffic
    if case.runtime.state.value_or("") == "asleep":
        return 0.0
    if not isinstance(traffic, Known):
        return None
    by_places = traffic.value.running / max(1.0, traffic.value.each_among)
    rate, given = report.measured.get(DECODE), traffic.value.tokens_per_s.value_or(0.0)
    by_tokens = given / rate / max(1.0, traffic.value.each_among) if rate else 0.0  # scrapes miss short requests
    return min(1.0, max(by_places, by_tokens))

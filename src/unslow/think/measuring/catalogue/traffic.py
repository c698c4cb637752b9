"""What a busy server does for others; nothing is sent."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, first_known
from unslow.think.measuring.measurement import Load, Measurement


def _is_busy(case: Case) -> bool:
    """Whether it works for others, now or between two looks by its log, and can be asked about it."""
    runtime = case.runtime
    busy = first_known(runtime.busy_slots, runtime.running_requests).value_or(0)
    return bool(busy or case.run.logged_prompts.value_or(())) and isinstance(runtime.url, Known)


MEASUREMENT = Measurement(
    "traffic",
    "watching the requests that it answers anyway",
    "to see how fast it is, and who waits",
    ("run.traffic", "run.decode_tokens_per_s", "run.queue_s"),
    lambda _case: Load(seconds=6.0),
    sends=False,
    possible=_is_busy,
    about=("queueing", "kv_cache_preemption", "gpu_underused_by_one_stream", "model_reloads_between_requests"),
)

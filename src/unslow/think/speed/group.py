"""The groups in which predictions are judged, and their intervals learned: each has its own sources of error."""

from unslow.think.speed.rows import Asked

PREFILL, PARTIAL, CPU, SEVERAL, MOE, DEEP, DENSE = (
    "prefill",
    "partial offload",
    "cpu only",
    "several gpus",
    "moe",
    "deep context",
    "dense gpu",
)
DEEP_FROM = 4096.0


def group_of(asked: Asked) -> str:
    """The group of a row."""
    if asked.kind == "pp":
        return PREFILL
    if asked.backend == "cpu":
        return CPU
    if asked.experts_on_cpu or (asked.gpu_layers is not None and asked.gpu_layers < len(asked.load.layers)):
        return PARTIAL
    if asked.gpus > 1:
        return SEVERAL
    if asked.load.is_sparse:
        return MOE
    return DEEP if asked.start >= DEEP_FROM else DENSE

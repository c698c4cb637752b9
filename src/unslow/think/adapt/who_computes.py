"""Which processors have part of the model to compute."""

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError
from unslow.think.adapt.account import remarks_on
from unslow.think.adapt.gpu_reach import hidden_by_environment
from unslow.think.adapt.overrides import sent_away
from unslow.think.adapt.placement import holds_weights_on_host, layers_left_on_host
from unslow.think.adapt.remembered import once
from unslow.think.adapt.vram import buffers_of, gpus_held, gpus_of, runtime_sees_gpu


def cpu_computes(case: Case) -> bool | None:
    """Whether the CPU has layers or experts to compute; None where nothing tells."""
    # attention is computed where its cache lies
    attention_there = buffers_of(case, "kv", on_gpu=False) or case.runtime.kv_offload.value_or(default=True) is False
    if attention_there or (isinstance(case.machine.gpus, Known) and not case.machine.gpus.value):
        return True
    if case.runtime.embedded or any(sent_away(case)) or remarks_on(case, Topic.GPU_ABSENT):
        return True
    if holds_weights_on_host(case):
        return True  # whatever number of layers was counted: experts may be left behind
    if isinstance(case.runtime.vram_share, Known):
        return case.runtime.vram_share.value < 1
    try:
        return layers_left_on_host(case) > 0
    except MissingFactError:
        return True if runtime_sees_gpu(case) is False else None


@once
def uses_no_gpu(case: Case) -> bool:
    """Whether it is sure that no GPU computes: none is seen, all are hidden, or a setting keeps away from them."""
    if case.runtime.embedded:
        return True
    sees = runtime_sees_gpu(case)
    if case.runtime.device_set.value_or("") == "none":
        return not case.runtime.gpu_layers.value_or(0) and not buffers_of(case, "model", on_gpu=True)
    return sees is False or (sees is None and hidden_by_environment(case) is not None)


def gpus_computing(case: Case) -> int | None:
    """How many GPUs hold a part of the model; None where nothing tells."""
    held = {b.device for b in buffers_of(case, "model", on_gpu=True)}
    if held:
        return len(held)
    parallel = case.runtime.tensor_parallel.value_or(1) * case.runtime.pipeline_parallel.value_or(1)
    if parallel > 1:
        return parallel
    if isinstance(case.machine.gpus, Known) and len(gpus_of(case)) <= 1:
        return len(gpus_of(case))
    if case.runtime.split_mode.value_or("") == "none":
        return 1
    listed = all(isinstance(gpu.processes, Known) for gpu in gpus_of(case))
    return len(gpus_held(case)) or None if listed else None

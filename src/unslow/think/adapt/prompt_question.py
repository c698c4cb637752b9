"""What a prompt asks of a case: the part of the model on GPUs, and the part that lies with the host."""

from unslow.facts.snapshot import Case
from unslow.think.adapt.bandwidth import computing_threads, host_bandwidth
from unslow.think.adapt.cpu_limits import quota_of
from unslow.think.adapt.gpu_question import element_bytes_of, gpu_question, question_about
from unslow.think.adapt.host_question import chip_of_host, host_setting, left_on_host
from unslow.think.adapt.host_weights import host_link_bytes_per_s
from unslow.think.adapt.vram import gpus_used, runtime_sees_gpu
from unslow.think.physics.placement import Placement, Shape
from unslow.think.speed.question import USUAL_LINK, Host, Question
from unslow.think.speed.totals import Totals

LENDS_FROM = 32
"""A micro-batch of fewer tokens is computed by the host itself (`op_offload_min_batch_size` in llama.cpp)."""


def prompt_question(case: Case, shape: Shape, placement: Placement, each: float) -> Question:
    """The question about a prompt in an empty context, of which so many tokens are computed at once."""
    asked = gpu_question(case, shape, placement, 0.0)
    if asked is not None and not _some_on_host(shape, placement):
        return asked.question
    host = _host(case, shape, placement)
    if asked is None and host_lends(case, each) and runtime_sees_gpu(case) and gpus_used(case):
        asked = question_about(case, Totals(width=shape.width), 0.0)  # even with no layer there, a GPU computes prompts
    if asked is not None:
        return asked.question._replace(host=host)
    return Question(None, host.chip, host.setting, element_bytes=element_bytes_of(case), host=host)


def host_lends(case: Case, each: float) -> bool:
    """Whether weights in the host's memory are copied to the GPU for a micro-batch, instead of being computed there."""
    return case.runtime.op_offload.value_or(default=True) and each >= LENDS_FROM


def _some_on_host(shape: Shape, placement: Placement) -> bool:
    return min(placement.attending, placement.with_experts) < shape.layers


def _host(case: Case, shape: Shape, placement: Placement) -> Host:
    """The output is computed once for a whole prompt, so it stays out of this."""
    totals = left_on_host(case, shape, placement._replace(output_on_gpu=True))
    return Host(
        totals,
        chip_of_host(case, host_bandwidth(case)[0], threads_for_prompts(case)),
        host_setting(case, placement),
        link_bytes_per_s=host_link_bytes_per_s(case) or USUAL_LINK,
    )


def threads_for_prompts(case: Case) -> float:
    """Threads that compute a prompt on the host at once, each on a core, as far as a quota lets them."""
    threads = computing_threads(case, float(case.runtime.threads_batch.value_or(0)))
    quota = quota_of(case)[0].value_or(0.0)
    return min(threads, quota) if quota > 0 else threads

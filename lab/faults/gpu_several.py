"""On a GPU, several faults at once: the one that costs most comes first, and the others are named beside it."""

from lab.faults.fault import Fault, Stage
from lab.faults.gpu_healthy import ALONE, CONTEXT, CPUS
from lab.faults.gpu_serving import SORTED
from lab.faults.large_models import LLAMA_8B, MOE_30B
from lab.faults.neighbours import busy_loops

TOO_LOW = "gpu_layers_set_too_low"
MANY = ("threads_exceed_cores", "threads_exceed_cpu_quota")


def both(name: str, what: str, cause: str, also: tuple[str, ...], stage: Stage, model: str = LLAMA_8B) -> Fault:
    """Several things wrong, all of them cured."""
    return Fault(name, what, ("gpu",), model, stage, cause, also, cure=ALONE)


FAULTS = (
    both(
        "layers_and_busy_cpus",
        "-ngl 28 of 33, and a busy loop for each CPU",
        TOO_LOW,
        ("cpu_contended",),
        Stage((*CONTEXT, "-ngl", "28"), beside=(busy_loops(CPUS),)),
    ),
    both(
        "layers_and_many_threads",
        "-ngl 20 of 33, and four threads for each CPU",
        TOO_LOW,
        MANY,
        Stage((*CONTEXT, "-ngl", "20", "-t", str(4 * CPUS))),
    ),
    both(
        "layers_and_one_thread",
        "-ngl 28 of 33 with -t 1",
        TOO_LOW,
        ("threads_too_few",),
        Stage((*CONTEXT, "-ngl", "28", "-t", "1")),
    ),
    both(
        "layers_and_few_cpus",
        "-ngl 28 of 33, bound to four CPUs by taskset",
        TOO_LOW,
        (*MANY, "cpu_contended"),
        Stage((*CONTEXT, "-ngl", "28"), wrap=("taskset", "-c", "0-3")),
    ),
    both(
        "layers_and_small_ubatch",
        "-ngl 28 of 33 with -ub 16",
        TOO_LOW,
        ("prefill_batch_too_small", "prefill_pcie_bound"),
        Stage((*CONTEXT, "-ngl", "28", "-ub", "16")),
    ),
    both(
        "experts_and_few_threads",
        "-cmoe with -t 2",
        "experts_on_cpu",
        ("threads_too_few",),
        Stage((*CONTEXT, "-cmoe", "-t", "2")),
        MOE_30B,
    ),
    both(
        "kv_on_host_and_sorting",
        "-nkvo, and the whole vocabulary is sorted",
        "sampling_on_cpu",
        ("kv_cache_on_host",),
        Stage((*CONTEXT, "-nkvo", *SORTED)),
    ),
    both(
        "kv_type_and_one_thread",
        "-ctk iq4_nl -ctv iq4_nl with flash attention, and -t 1",
        "type_without_gpu_kernel",
        ("threads_too_few",),
        Stage((*CONTEXT, "-ctk", "iq4_nl", "-ctv", "iq4_nl", "-fa", "on", "-t", "1")),
    ),
)

"""On a GPU, others beside the server: a stranger that computes there, busy loops on the CPUs."""

from lab.faults.fault import Fault, Stage
from lab.faults.gpu_healthy import ALONE, CONTEXT, CPUS
from lab.faults.large_models import LLAMA_1B, LLAMA_8B
from lab.faults.neighbours import another_server, busy_loops
from lab.faults.strangers import holds, leaves

FAULTS = (
    Fault(
        "gpu_shared",
        "a stranger multiplies matrices on the same GPU all the while",
        ("gpu",),
        LLAMA_8B,
        Stage(CONTEXT, around=(holds(0, works=True),)),
        "gpu_shared_with_other_work",
        cure=ALONE,
    ),
    Fault(
        "second_server",
        "a second llama-server on the same GPU answers a user of its own all the while",
        ("gpu",),
        LLAMA_8B,
        Stage(CONTEXT, around=(another_server(LLAMA_1B),)),
        "gpu_shared_with_other_work",
        cure=ALONE,
    ),
    Fault(
        "stranger_holds_and_works",
        "a stranger holds all but 4 GiB and multiplies matrices",
        ("gpu",),
        LLAMA_8B,
        Stage(CONTEXT, around=(leaves(4, works=True),)),
        "other_process_holds_vram",
        ("gpu_shared_with_other_work", "weights_spill_to_ram", "context_larger_than_needed"),
        cure=ALONE,
    ),
    Fault(
        "cpus_overrun",
        "all layers on the GPU, and four busy loops for each CPU: the server waits for its turn between kernels",
        ("gpu",),
        LLAMA_8B,
        Stage(CONTEXT, beside=(busy_loops(4 * CPUS),)),
        "cpu_contended",
        cure=ALONE,
    ),
)

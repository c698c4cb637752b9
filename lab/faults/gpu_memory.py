"""On a GPU, too little memory: strangers that hold it, contexts and slots that take it, loads that fail."""

from lab.faults.fault import Fault, Stage
from lab.faults.gpu_healthy import ALONE, CONTEXT
from lab.faults.large_models import LLAMA_8B, MOE_30B, QWEN_14B
from lab.faults.strangers import leaves

HELD = "other_process_holds_vram"
SPILL = "weights_spill_to_ram"
FORCED = ("-ngl", "99", "-fit", "off")
"""As a guide has it that never heard of --fit: then a load that does not fit fails."""
MANAGED = {"GGML_CUDA_ENABLE_UNIFIED_MEMORY": "1"}


def failing(name: str, what: str, free_gib: float, *arguments: str) -> Fault:
    """A load that ends in an allocation error."""
    stage = Stage((*FORCED, *arguments), around=(leaves(free_gib),))
    return Fault(name, what, ("gpu",), LLAMA_8B, stage, "memory_allocation_failed", (HELD,), verdict="failed")


FAULTS = (
    Fault(
        "stranger_leaves_4_gib",
        "a stranger holds all but 4 GiB; at the defaults, the fit drops layers",
        ("gpu",),
        LLAMA_8B,
        Stage(around=(leaves(4),)),
        HELD,
        (SPILL, "context_larger_than_needed"),
        cure=Stage(),
    ),
    Fault(
        "stranger_and_pinned_layers",
        "a stranger holds all but 4 GiB, and -ngl 20 asks for more than that: it does not load",
        ("gpu",),
        LLAMA_8B,
        Stage((*CONTEXT, "-ngl", "20"), around=(leaves(4),)),
        HELD,
        ("memory_allocation_failed",),
        verdict="failed",
    ),
    Fault(
        "stranger_moves_experts",
        "a stranger holds all but 12 GiB; the fit moves experts of a 30B-A3B to the host",
        ("gpu",),
        MOE_30B,
        Stage(CONTEXT, around=(leaves(12),)),
        HELD,
        (SPILL, "experts_on_cpu"),
        cure=ALONE,
    ),
    Fault(
        "context_pinned_beside_stranger",
        "-c 131072 with 10 GiB left: its KV cache pushes layers out, 8192 tokens would fit",
        ("gpu",),
        LLAMA_8B,
        Stage(("-c", "131072"), around=(leaves(10),)),
        "context_larger_than_needed",
        (HELD, SPILL),
        cure=Stage(CONTEXT, around=(leaves(10),)),
    ),
    Fault(
        "context_pinned",
        "-c 1179648 on an empty GPU: a KV cache of 144 GiB pushes layers out",
        ("gpu",),
        LLAMA_8B,
        Stage(("-c", "1179648")),
        "context_larger_than_needed",
        (SPILL,),
        cure=ALONE,
    ),
    Fault(
        "parallel_slots",
        "-np 9 -c 1179648 on an empty GPU: nine slots of the trained context push layers out",
        ("gpu",),
        LLAMA_8B,
        Stage(("-np", "9", "-c", "1179648")),
        "parallel_slots_inflate_kv",
        ("context_larger_than_needed", SPILL),
        cure=Stage(("-np", "1", "-c", "131072")),
    ),
    Fault(
        "sixteen_slots_beside_stranger",
        "--parallel 16 -c 131072 with 24 GiB left: the cache of sixteen slots pushes layers out",
        ("gpu",),
        QWEN_14B,
        Stage(("--parallel", "16", "-c", "131072"), around=(leaves(24),)),
        "parallel_slots_inflate_kv",
        ("context_larger_than_needed", SPILL, HELD),
        cure=Stage(("--parallel", "1", "-c", "8192"), around=(leaves(24),)),
    ),
    Fault(
        "driver_spills_weights",
        "managed memory, and a stranger holds all but 4 GiB: all layers are on the GPU, and the driver moves pages",
        ("gpu",),
        LLAMA_8B,
        Stage((*FORCED, *CONTEXT, "-fa", "on"), MANAGED, around=(leaves(4),)),
        HELD,
        ("driver_spills_to_shared_memory", "kv_cache_outgrows_vram", SPILL),
        cure=ALONE,
    ),
    failing("weights_do_not_fit", "3 GiB left, all layers forced: the weights can't be allocated", 3, "-c", "4096"),
    failing("kv_does_not_fit", "8 GiB left, -c 131072, all layers forced: no KV cache", 8, "-c", "131072"),
    failing(
        "compute_buffer_does_not_fit",
        "6.6 GiB left, enough for weights and KV; -ub 4096 -fa off asks for a compute buffer that is not there",
        6.6,
        *("-c", "8192", "-b", "4096", "-ub", "4096", "-fa", "off"),
    ),
)

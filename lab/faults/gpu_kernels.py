"""On a GPU, computed the slow way: types without a kernel, no flash attention, no graphs, small batches."""

from lab.faults.fault import Fault, Stage
from lab.faults.gpu_healthy import ALONE, CONTEXT
from lab.faults.large_models import LLAMA_8B, QWEN_06B, SMOL_135M
from lab.faults.neighbours import clients, deep_talk
from lab.faults.strangers import leaves

NO_KERNEL = "type_without_gpu_kernel"
DEEP = ("-c", "40960", "-np", "1", "--metrics")
LONG = ("-c", "32768", "-np", "1", "-b", "2048", "-ub", "2048")


def kv_types(keys: str, values: str) -> Fault:
    """A KV cache of types that flash attention on CUDA has no kernel for (fattn.cu), cured by one that it has."""
    stage = Stage((*CONTEXT, "-ctk", keys, "-ctv", values, "-fa", "on"))
    cure = Stage((*CONTEXT, "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on"))
    what = f"-ctk {keys} -ctv {values} with flash attention: attention falls back to the CPU"
    return Fault(f"kv_{keys}_{values}", what, ("gpu",), LLAMA_8B, stage, NO_KERNEL, cure=cure)


FAULTS = (
    kv_types("iq4_nl", "iq4_nl"),
    kv_types("f16", "iq4_nl"),
    Fault(
        "flash_attention_off",
        "-fa off with a context of 32768 and 14 GiB left: its compute buffer of 8 GiB pushes layers out",
        ("gpu",),
        LLAMA_8B,
        Stage((*LONG, "-fa", "off"), around=(leaves(14),)),
        "flash_attention_off",
        ("other_process_holds_vram", "weights_spill_to_ram", "context_larger_than_needed", "prefill_pcie_bound"),
        cure=Stage((*LONG, "-fa", "on"), around=(leaves(14),)),
    ),
    Fault(
        "flash_attention_off_deep",
        "-fa off and a user whose conversation is 32,000 tokens long: attention reads the whole cache the slow way",
        ("gpu",),
        LLAMA_8B,
        Stage((*DEEP, "-fa", "off"), beside=(clients(1, deep_talk(32_000)),)),
        "flash_attention_off",
        cure=Stage((*DEEP, "-fa", "on"), beside=(clients(1, deep_talk(32_000)),)),
    ),
    Fault(
        "graphs_off_600m",
        "GGML_CUDA_DISABLE_GRAPHS=1 and a 0.6B model of 28 layers",
        ("gpu",),
        QWEN_06B,
        Stage(("-c", "4096"), {"GGML_CUDA_DISABLE_GRAPHS": "1"}),
        "eager_mode",
        ("kernel_launch_bound",),
        cure=Stage(("-c", "4096")),
    ),
    Fault(
        "graphs_off",
        "GGML_CUDA_DISABLE_GRAPHS=1 and a 135M model: each kernel is launched on its own",
        ("gpu",),
        SMOL_135M,
        Stage(("-c", "4096"), {"GGML_CUDA_DISABLE_GRAPHS": "1"}),
        "eager_mode",
        ("kernel_launch_bound",),
        cure=Stage(("-c", "4096")),
    ),
    Fault(
        "small_ubatch",
        "-ub 16: a prompt is read sixteen tokens at a time",
        ("gpu",),
        LLAMA_8B,
        Stage((*CONTEXT, "-ub", "16")),
        "prefill_batch_too_small",
        cure=ALONE,
        metric="prefill",
    ),
    Fault(
        "draft_never_accepted",
        "a draft model of random weights, eight tokens ahead: nearly none is accepted",
        ("gpu",),
        LLAMA_8B,
        Stage((*CONTEXT, "-md", "{models}/llama1b.gguf", "--spec-type", "draft-simple", "--spec-draft-n-max", "8")),
        "speculative_decoding_hurts",
        cure=ALONE,
    ),
)

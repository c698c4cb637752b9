"""On a GPU, parts of the model on the wrong side: layers, experts, the output layer, the KV cache, everything."""

from lab.faults.fault import Fault, Stage
from lab.faults.gpu_healthy import ALONE, CONTEXT, at_default_verbosity
from lab.faults.large_models import LLAMA_8B, MOE_30B

TOO_LOW, NOT_LOADED = "gpu_layers_set_too_low", "gpu_backend_not_loaded"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}


def misplaced(name: str, what: str, cause: str, *arguments: str, model: str = LLAMA_8B) -> Fault:
    """A setting that puts something on the host, cured by its absence."""
    return Fault(name, what, ("gpu",), model, Stage((*CONTEXT, *arguments)), cause, cure=ALONE)


def hidden(name: str, what: str, stage: Stage) -> Fault:
    """A GPU in the machine, and none in the runtime."""
    return Fault(name, what, ("gpu",), LLAMA_8B, stage, NOT_LOADED, cure=ALONE)


FAULTS = (
    misplaced("gpu_layers_20", "-ngl 20 of 33 with the GPU free", TOO_LOW, "-ngl", "20"),
    misplaced("gpu_layers_0", "-ngl 0 with the GPU free", TOO_LOW, "-ngl", "0"),
    misplaced("gpu_layers_28", "-ngl 28 of 33 with the GPU free", TOO_LOW, "-ngl", "28"),
    misplaced("all_experts_on_cpu", "-cmoe with the GPU free", "experts_on_cpu", "-cmoe", model=MOE_30B),
    misplaced("some_experts_on_cpu", "-ncmoe 20 of 48 layers", "experts_on_cpu", "-ncmoe", "20", model=MOE_30B),
    misplaced("output_on_cpu", "-ot ^output.weight=CPU", "output_layer_on_cpu", "-ot", r"^output\.weight=CPU"),
    misplaced("kv_on_host", "-nkvo with the GPU free", "kv_cache_on_host", "-nkvo"),
    misplaced("device_none", "-dev none: a setting keeps everything off the GPU", TOO_LOW, "-dev", "none"),
    hidden("gpu_hidden", "CUDA_VISIBLE_DEVICES is empty", Stage(CONTEXT, HIDDEN)),
    hidden(
        "gpu_hidden_default_verbosity",
        "CUDA_VISIBLE_DEVICES is empty, and the log hides its load lines",
        Stage(CONTEXT, HIDDEN, around=(at_default_verbosity,)),
    ),
)

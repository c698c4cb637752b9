"""What a model needs, and which models are here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from unslow.app.progress import Progress, Silent
from unslow.facts.stored_model import Inventory
from unslow.think.fit.report import FitReport


def fit(  # noqa: PLR0913 (as many as the command has flags)
    model: str | Path,
    *,
    device: str | Sequence[str] = "auto",
    ram: str | None = None,
    quant: str | None = None,
    runtime: str | None = None,
    margin: str | None = None,
    context: int | str | None = None,
    parallel: int | None = None,
    kv_unified: bool | None = None,
    kv_type: str = "f16",
    kv_type_v: str | None = None,
    kv_offload: bool = True,
    swa_full: bool = False,
    gpu_layers: int | None = None,
    n_cpu_moe: int = 0,
    override_tensor: Sequence[str] = (),
    tensor_split: Sequence[float] = (),
    batch: int | None = None,
    ubatch: int | None = None,
    outputs: int | None = None,
    flash_attention: Literal["on", "off", "auto"] = "auto",
    op_offload: bool = True,
    gpu_memory_utilization: float | None = None,
) -> FitReport:
    """Whether a model fits: what it asks of each device, byte by byte, and what would fit.

    model: a GGUF file, a folder of safetensors, the URL of a GGUF file, a stored model, or a well-known name
    device: "RTX 4090", "2x H100", "M3 Max 64GB", "24GB", "cpu", or "auto" for this machine's; several as a list
    ram: the host's memory, where it is not this machine's: "64GB"
    quant: for a name with no file; None for the published one, else Q4_K_M
    runtime: "llama.cpp", "ollama", "vllm" or "transformers"; None for the first, or for what stores it
    margin: what has to stay free on each device: "512MiB"; None for 1GiB
    context: tokens, for all slots together (Ollama: for each): 8192 or "128k"; 0 for all that the model was trained
        for; None for 8192, with vLLM for the longest that fits
    parallel: slots; None for llama-server's 4 with one cache for all
    kv_unified: one cache for all slots; None for the runtime's own choice
    kv_type: of the cache's keys, and of its values unless kv_type_v is given: "f16", "q8_0", "q4_0"
    kv_type_v: of the cache's values
    kv_offload: keep the cache with its layer, or all of it on the host
    swa_full: layers with a sliding window keep the whole context
    gpu_layers: layers on the GPUs, the output counted as one; None for all
    n_cpu_moe: the experts of so many layers stay on the host
    override_tensor: patterns with their device, such as "exps=CPU"
    tensor_split: shares of several GPUs; empty for shares by free memory
    batch: logical batch; None for 2048
    ubatch: prompt tokens that are computed at once; None for 512
    outputs: tokens with logits in a batch; None for a server's slots, 0 for all
    flash_attention: whether the attention is computed in one kernel
    op_offload: GPUs compute long prompts with the host's weights
    gpu_memory_utilization: vLLM's share of each GPU, from 0 to 1; None for its own 0.92
    """
    flags: dict[str, Any] = dict(locals())
    from unslow.app.fit import Request, answer  # noqa: PLC0415 (imported when used)
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    flags |= {"model": str(model), "devices": listed(device), "ram_bytes": ram, "margin_bytes": margin}
    flags |= {"override_tensor": list(override_tensor), "tensor_split": list(tensor_split)}
    return answer(LiveSystem(), Request.from_flags(flags))


def listed(device: str | Sequence[str]) -> list[str]:
    """One device or several, as the requests have them."""
    return [device] if isinstance(device, str) else list(device)


def models(where: Sequence[str | Path] = (), *, progress: Progress | None = None) -> Inventory:
    """The models on this machine, in every tool's store; only their headers are read.

    where: further folders or files to look at
    progress: is told what is being done; None for silence
    """
    from unslow.app.models import list_models  # noqa: PLC0415 (imported when used)
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return list_models(LiveSystem(), [str(path) for path in where], progress or Silent())

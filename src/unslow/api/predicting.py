"""How fast a model should be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from unslow.api.fitting import listed
from unslow.think.speed.report import PredictionReport


def predict(  # noqa: PLR0913 (as many as the command has flags)
    model: str | Path,
    *,
    device: str | Sequence[str] = "auto",
    quant: str | None = None,
    context: int | str = 0,
    prompt: int | str = 512,
    batch: int = 1,
    gpus: int | None = None,
    runtime: str | None = None,
    backend: str | None = None,
    gpu_layers: int | Literal["auto", "all"] | None = None,
    cpu_moe: int | None = None,
    kv_type: str = "f16",
    split: Literal["", "layer", "row", "tensor"] = "",
    ubatch: int = 512,
    flash_attention: bool = True,
    graphs: bool = True,
    threads: int | None = None,
    ram: str | None = None,
    ram_bandwidth: str | None = None,
    draft: str | None = None,
    draft_tokens: int | None = None,
    acceptance: float | None = None,
    explain: bool = False,
) -> PredictionReport:
    """How fast a model should be: answers, prompts and the first token, each with an interval that holds four of five.

    As many layers as fit lie on the GPU, the others on the host, unless gpu_layers says otherwise. Where nothing can be
    told, `decode` is None and `reason` says why.

    model: a well-known name (llama-3.3-70b), a GGUF file, the URL of one, or a stored model
    device: "RTX 4090", "2x H100", "M3 Max 64GB", a processor, or "auto" for this machine's; several as a list
    quant: for a name with no file; None for the published one, else Q4_K_M
    context: tokens that are in the context already: 8192 or "128k"
    prompt: tokens of the prompt whose reading is predicted
    batch: conversations that are served at once
    gpus: how many of that device
    runtime: "llama.cpp", "ollama", "vllm" or "transformers"; None for Ollama's own models Ollama, else llama.cpp
    backend: "cuda", "rocm", "metal", "vulkan" or "cpu"; None for that of the device's maker
    gpu_layers: layers on the GPUs, the output counted as one; None or "auto" for as many as fit
    cpu_moe: the experts of so many layers stay on the host
    kv_type: of the cache's keys and values: "f16", "q8_0", "q4_0"
    split: of several GPUs; empty for the usual way: layer, with vLLM tensor
    ubatch: prompt tokens that are computed at once
    flash_attention: whether the attention is computed in one kernel
    graphs: with CUDA graphs
    threads: of the host; None for its cores
    ram: the host's memory, where it is not this machine's: "64GB"
    ram_bandwidth: what the host's memory delivers: "80GB/s"; None for what is measured here
    draft: a small model that drafts tokens
    draft_tokens: how many it drafts at a time; None for 4
    acceptance: the share of drafted tokens that are right, from 0 to 1
    explain: also which wall binds, what batching gives, and every quant
    """
    flags: dict[str, Any] = dict(locals())
    from unslow.app.predict import Request, answer  # noqa: PLC0415 (imported when used)
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    flags |= {"model": str(model), "devices": listed(device), "depth": context, "ram_bytes": ram}
    return answer(LiveSystem(), Request.from_flags(flags))

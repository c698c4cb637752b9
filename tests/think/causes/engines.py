"""Cases of vLLM on two GPUs."""

from typing import Any

from cases import r, with_facts
from several_gpus import CARDS, two_gpus

from unslow.facts.snapshot import Case
from unslow.facts.values import GB, not_found

NO_BUFFERS = not_found("vLLM says it only in its log")


def vllm(names: tuple[str, str] = CARDS, tensor_parallel: int = 2, **facts: Any) -> Case:
    """The usual model in 16 bits, cut over two GPUs."""
    case = two_gpus(names, free=(2.0, 2.0))
    settings = {
        "runtime.name": "vLLM", "runtime.version": "0.11.0", "runtime.placement.tensor_parallel": tensor_parallel,
        "runtime.placement.pipeline_parallel": 1, "runtime.memory.buffers": NO_BUFFERS,
        "runtime.placement.devices": NO_BUFFERS,
        "runtime.placement.gpu_layers": NO_BUFFERS, "runtime.placement.layers": NO_BUFFERS, "model.quant": "bfloat16",
        "model.weights_bytes": 16 * GB, "model.token_table_bytes": GB, "model.output_bytes": GB,
        "run.decode_tokens_per_s": r(90.0),
    }  # fmt: skip
    return with_facts(case, settings | facts)

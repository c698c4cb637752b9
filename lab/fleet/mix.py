"""What a large fleet is made of: models, cards and runtimes in a mix that many companies would know as their own."""

from typing import NamedTuple

from lab.fleet.machines import A100, H100, L40S, MI300X, Card
from lab.fleet.speeds import GPT_OSS_120B, LLAMA_8B, LLAMA_70B, QWEN_8B, QWEN_32B, Served

LLAMA_8B_GGUF = LLAMA_8B._replace(name="Llama-3.1-8B-Instruct-Q4_K_M.gguf", quant="Q4_K_M")


class Kind(NamedTuple):
    """One way to serve a model, and its share of the fleet."""

    model: Served
    card: Card
    gpus: int
    runtime: str
    weight: float
    users: tuple[int, ...] = (2, 8, 16, 32)
    """How many requests at once one of them may have."""


KINDS = (
    Kind(LLAMA_8B, H100, 1, "vLLM", 16),
    Kind(LLAMA_8B, A100, 1, "vLLM", 14),
    Kind(LLAMA_8B, L40S, 1, "vLLM", 14),
    Kind(QWEN_8B, L40S, 1, "vLLM", 10),
    Kind(QWEN_32B, A100, 2, "vLLM", 9),
    Kind(QWEN_32B, H100, 2, "vLLM", 6),
    Kind(LLAMA_70B, H100, 4, "vLLM", 8),
    Kind(LLAMA_70B, A100, 4, "vLLM", 4),
    Kind(LLAMA_70B, H100, 8, "vLLM", 2),
    Kind(LLAMA_70B, MI300X, 1, "vLLM", 3),
    Kind(GPT_OSS_120B, H100, 1, "vLLM", 4, (2, 8)),
    Kind(LLAMA_8B, H100, 1, "SGLang", 4),
    Kind(QWEN_32B, H100, 2, "SGLang", 2),
    Kind(LLAMA_8B_GGUF, L40S, 1, "llama.cpp", 4, (1, 4)),
)
"""The weights are a choice: mostly vLLM, mostly one GPU, no two companies alike."""

FAULT_SHARES = {
    "thermal": 0.006, "power": 0.006, "low_clocks": 0.005, "preemption": 0.006, "queueing": 0.006, "held": 0.003,
    "swapping": 0.004, "unexplained": 0.004, "no_exporter": 0.02, "down": 0.005,
}  # fmt: skip
"""Of all instances: known few percent, so that a healthy one that is called slow is seen as well."""
IN_PODS = 0.85
"""The others have a host each and no Kubernetes."""
IDLE = 0.04
REPLICAS = 0.01
"""Scraped by two servers whose label `prometheus_replica` differs."""
NAMELESS = 0.01
"""Their series have no name of the model."""
DEFAULT_EXPORTER = 0.3
"""Of hosts: their GPU exporter tells no throttling and no limits."""

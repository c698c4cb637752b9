"""Which engine computes behind the name of a runtime."""

import re

from unslow.facts.snapshot import Case
from unslow.facts.values import Known

_GGML = re.compile(
    r"llama[-_. ]?(?:cpp|server|cli|bench|file|swap)|ollama|lm ?studio|kobold|jan\b|gpt4all", re.IGNORECASE
)
_PAGED = re.compile(r"vllm|sglang|aphrodite|text-generation-inference|\btgi\b|lmdeploy|tensorrt-?llm", re.IGNORECASE)
_GPUS_ALONE = re.compile(rf"{_PAGED.pattern}|exllama|tabby", re.IGNORECASE)
_HALF = re.compile(
    r"exllama|tabby|vllm|sglang|aphrodite|transformers|\btgi\b|auto-?(?:gptq|awq)|lmdeploy", re.IGNORECASE
)

_FORMATS = re.compile(r"\bexl[23]\b|\bbpw\b|\dbpw\b|\bgptq\b|\bawq\b", re.IGNORECASE)


def runs_ggml(case: Case) -> bool | None:
    """Whether llama.cpp's engine computes; None where the runtime is not known."""
    name = case.runtime.name
    return bool(_GGML.search(name.value)) if isinstance(name, Known) else None


def runs_paged(case: Case) -> bool | None:
    """Whether it is vLLM, SGLang or one of their kin; None where the runtime is not known."""
    name = case.runtime.name
    return bool(_PAGED.search(name.value)) if isinstance(name, Known) else None


def runs_on_gpus_alone(case: Case) -> bool:
    """Whether its engine computes no layer on a CPU as long as it has a GPU."""
    return bool(_GPUS_ALONE.search(case.runtime.name.value_or("")))


def computes_in_half(case: Case) -> bool:
    """Whether its engine computes in 16 bits whatever the weights are stored as: by its name, else by their format."""
    model = f"{case.model.quant.value_or('')} {case.model.name.value_or('')}"
    return bool(_HALF.search(case.runtime.name.value_or(""))) or (not runs_ggml(case) and bool(_FORMATS.search(model)))

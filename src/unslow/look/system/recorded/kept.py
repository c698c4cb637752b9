"""What is written down of an answer: no names, no keys, no prompts, and nothing of whom this machine talks with."""

from collections.abc import Callable
from typing import Any

import msgspec

from unslow.facts.masking import masked_command, masked_environment, masked_text

KEPT_VARIABLES = ("LLAMA_", "GGML_", "CUDA_", "HIP_", "ROCR_", "HSA_", "OLLAMA_", "OMP_", "GOMP_", "VLLM_")
_MOST_SOCKETS = 100_000
_SHORT = 200  # an error message; anything longer that is no JSON might hold a prompt


def masked_bytes(data: bytes) -> str:
    """What a file holds, without what is nobody's business."""
    return masked_text(data.decode("utf-8", "replace"))


def masked_tail(data: bytes, limit: int) -> str:
    """The end of a file; the first line of it was cut, and may be the rest of a prompt that can't be told as one."""
    return masked_bytes(data if len(data) < limit else data.partition(b"\n")[2])


def _words(data: bytes) -> str:
    return "\0".join(masked_command(data.decode("utf-8", "replace").split("\0")))


def _variables(data: bytes) -> str:
    words = (w.partition("=") for w in data.decode("utf-8", "replace").split("\0") if w.startswith(KEPT_VARIABLES))
    return "\0".join(f"{k}={v}" for k, v in masked_environment({k: v for k, _, v in words}).items())


def _listeners(data: bytes) -> str:
    """The table of sockets without the connections: with whom this machine talks is nobody's business."""
    head, *rows = data.decode("utf-8", "replace").splitlines()[:_MOST_SOCKETS] or [""]
    return "\n".join([head, *(row for row in rows if row.split()[3:4] == ["0A"])]) + "\n"


_FORMS: dict[str, Callable[[bytes], str]] = {
    "/environ": _variables,
    "/cmdline": _words,
    "/proc/net/tcp": _listeners,
    "/proc/net/tcp6": _listeners,
}
"""What is kept of files that hold more than a recording should, by the end of their path."""


def form_of(path: str) -> Callable[[bytes], str]:
    """How a file is written down."""
    return next((form for end, form in _FORMS.items() if path.endswith(end)), masked_bytes)


def without_prompts(slots: str) -> str:
    """The answer of /slots without what people asked and what they were told."""
    try:
        answer = msgspec.json.decode(slots)
    except (msgspec.MsgspecError, RecursionError):
        return slots if len(slots) < _SHORT else ""
    for slot in answer if isinstance(answer, list) else []:
        for name in ("prompt", "generated") if isinstance(slot, dict) else ():
            slot.pop(name, None)
    return msgspec.json.encode(answer).decode()


def hidden(_value: Any) -> str:
    """That there was an answer, and nothing of it."""
    return "masked"


def masked_json(value: Any) -> Any:
    """An answer with every text in it masked."""
    match value:
        case str():
            return masked_text(value)
        case list() | tuple():
            return [masked_json(v) for v in value]
        case dict():
            return {k: masked_json(v) for k, v in value.items()}
        case _:
            return value

"""Puts the question to the runtime's own way of counting."""

from unslow.app.fit.gguf_answer import gguf_answer
from unslow.app.fit.hf_answer import hf_answer
from unslow.commands.fit import FitRequest
from unslow.look.system import System
from unslow.think.fit.report import FitReport


def answer(system: System, request: FitRequest) -> FitReport:
    """Whether the model fits; UserError where the question can't be answered."""
    if request.runtime in ("vllm", "transformers"):
        return hf_answer(system, request)
    return gguf_answer(system, request)

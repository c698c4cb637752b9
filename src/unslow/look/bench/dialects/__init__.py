"""How each runtime is asked for a completion, and what its own counts and times mean.

A dialect is a function `ask(system, target, question, heard) -> Reply`: it fills `heard` as the answer comes.
"""

from typing import Protocol

from unslow.look.bench.dialects import llama_cpp, ollama, openai
from unslow.look.bench.guest import Question, Reply, Target
from unslow.look.bench.heard import Heard
from unslow.look.system import System


class Dialect(Protocol):
    """One request, and what came back of it; LookError where the server can't or won't."""

    def __call__(self, system: System, target: Target, question: Question, heard: Heard) -> Reply:
        """Send it."""
        ...


_BY_NAME: dict[str, Dialect] = {"llama.cpp": llama_cpp.ask, "Ollama": ollama.ask}


def dialect_of(runtime: str) -> Dialect:
    """The dialect of a runtime by its name; what has none of its own speaks OpenAI's."""
    return next((dialect for name, dialect in _BY_NAME.items() if runtime.endswith(name)), openai.ask)


__all__ = ["Dialect", "dialect_of"]

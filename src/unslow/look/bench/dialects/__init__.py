"""How each runtime is asked for a completion, and how its answer is timed.

A dialect is a function `complete(system, target, plan, prompt, tokens) -> Timed`.
"""

from typing import Protocol

from unslow.look.bench.dialects import llama_cpp, ollama, openai
from unslow.look.bench.guest import Plan, Target, Timed
from unslow.look.system import System


class Dialect(Protocol):
    """One request for that many tokens, timed; LookError where the server can't or won't."""

    def __call__(self, system: System, target: Target, plan: Plan, prompt: str, tokens: int) -> Timed:
        """Send it."""
        ...


_BY_NAME: dict[str, Dialect] = {"llama.cpp": llama_cpp.complete, "Ollama": ollama.complete}


def dialect_of(runtime: str) -> Dialect:
    """The dialect of a runtime by its name; what has none of its own speaks OpenAI's."""
    return next((dialect for name, dialect in _BY_NAME.items() if runtime.endswith(name)), openai.complete)


__all__ = ["Dialect", "dialect_of"]

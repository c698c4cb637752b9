"""What a server expects of a given text: how likely it takes each next token, and which one it would have chosen."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.facts.values import Absence
from unslow.facts.verified import Scored
from unslow.look.bench.guest import Target
from unslow.look.scoring import llama_cpp, vllm
from unslow.look.scoring.places import Text
from unslow.look.system import LookError, System

__all__ = ["Text", "score"]


class _Scorer(NamedTuple):
    runtime: str
    score: Callable[[System, Target, Text], Scored]


_SCORERS = (_Scorer("llama.cpp", llama_cpp.score), _Scorer("vLLM", vllm.score))


def score(system: System, target: Target, text: Text) -> Scored:
    """Ask; LookError where the runtime gives no probabilities of a given text, or the answer holds none."""
    for scorer in _SCORERS:
        if target.runtime.endswith(scorer.runtime):
            return scorer.score(system, target, text)
    raise LookError(f"{target.runtime} gives no probabilities of a text that it is given", Absence.NOT_SUPPORTED)

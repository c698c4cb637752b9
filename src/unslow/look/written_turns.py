"""How a server writes a conversation for its model (the chat template): plain texts do not show it."""

import hashlib
import re
from typing import Any

from unslow.facts.values import Absence
from unslow.look.bench.guest import Target
from unslow.look.openai_api.server import OK
from unslow.look.system import LookError, System

_PATH = "/apply-template"
_TIMEOUT_S = 30.0
_TURNS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is the capital of France?"},
    {"role": "assistant", "content": "Paris."},
    {"role": "user", "content": "And of Italy?"},
]
_LATER = re.compile(r"\d+|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*")
"""Some templates write the day of today."""


def read_written_turns(system: System, target: Target) -> str:
    """A sign of the way that a conversation is written: two that are alike have the same; LookError where it is hidden.

    llama-server answers without any computing by its model (`/apply-template` in its server.cpp).
    """
    if not target.runtime.endswith("llama.cpp"):
        raise LookError(f"{target.runtime} does not show how it writes a conversation", Absence.NOT_SUPPORTED)
    named = {"model": target.model} if target.model else {}  # a router wants it
    answer = target.server(system).ask(_PATH, "POST", {"messages": _TURNS, **named}, _TIMEOUT_S)
    if answer.status != OK:
        raise LookError(f"{target.url}{_PATH} answered {answer.status}", Absence.NOT_SUPPORTED)
    return parse_written_turns(answer.json())


def parse_written_turns(answer: Any) -> str:
    """The sign of an answer; LookError where it holds no text."""
    prompt = answer.get("prompt") if isinstance(answer, dict) else None
    if not isinstance(prompt, str) or not prompt:
        raise LookError(f"{_PATH} gave no text", Absence.FAILED)
    return hashlib.sha256(_LATER.sub("", prompt).encode()).hexdigest()[:16]

"""How many tokens of the answers were thinking, where these answers can tell.

llama-server's `/completion` leaves the chat template out, so that a model may answer at once that thinks first in a
chat: only one whose template knows no thinking is known not to.
"""

import re
from collections.abc import Sequence
from typing import Any

from unslow.facts.values import not_found, reported
from unslow.look.bench.guest import Target, Timed
from unslow.look.system import LookError, System

HOW = "ask it in the chat that you use, and count the tokens of `reasoning_content` against those of `content`"
_THINKS = re.compile(r"think|reasoning|<\|channel\|>", re.IGNORECASE)
"""What the templates of models that reason have in common: <think>, [THINK], enable_thinking, reasoning_effort."""


def thinking(target: Target, done: Sequence[Timed], *, may_think: bool) -> dict[str, Any]:
    """The tokens that were thought and those that were said, by the names of their facts."""
    counts = [timed.thinking_tokens for timed in done]
    generated = sum(timed.completion.generated_tokens for timed in done)
    thought = sum(count for count in counts if count is not None)
    if None in counts:
        why = not_found("the server does not tell which tokens were thought", HOW)
    elif thought or not may_think:
        source = f"{len(done)} answers at {target.url}"
        return {
            "thinking_tokens": reported(thought, source),
            "answer_tokens": reported(max(0, generated - thought), source),
        }
    else:
        why = not_found("these answers came without the chat template, with which the model may think first", HOW)
    return {"thinking_tokens": why, "answer_tokens": why}


def may_think_unseen(system: System, target: Target) -> bool:
    """Whether a chat may show thinking where these answers show none: the template speaks of it, or can't be read."""
    if not target.runtime.endswith("llama.cpp"):
        return False
    try:
        props = target.server(system).json("/props")
    except LookError:
        return True
    template = props.get("chat_template") if isinstance(props, dict) else None
    return not isinstance(template, str) or bool(_THINKS.search(template))

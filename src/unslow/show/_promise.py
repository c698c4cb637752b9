"""What a fix should give, in the words of its metric."""

from collections.abc import Mapping

from unslow.show._units import rate, span
from unslow.think.first_token import FIRST_TOKEN
from unslow.think.predict import DECODE, PREFILL


def promised(predicted: Mapping[str, float]) -> str:
    """The first of what is predicted that a person looks at; empty where nothing is."""
    if DECODE in predicted:
        return f"about {rate(predicted[DECODE])} tok/s"
    if PREFILL in predicted:
        return f"prompts at about {rate(predicted[PREFILL])} tok/s"
    return f"the first token after about {span(predicted[FIRST_TOKEN])}" if FIRST_TOKEN in predicted else ""

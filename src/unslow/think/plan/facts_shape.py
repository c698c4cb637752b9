"""A dense model by the facts that a server's files or log told of it, where nothing else is known."""

from unslow.facts.hf_shape import HfShape
from unslow.facts.model import Model
from unslow.facts.values import Known

_NEEDED = ("layers", "width", "heads", "kv_heads", "vocabulary", "parameters")


def shape_of_facts(model: Model) -> HfShape | None:
    """Its numbers; None where one of them is missing, or experts make one number for the feed-forward too few."""
    if model.experts.value_or(0) > 1 or not all(isinstance(getattr(model, name), Known) for name in _NEEDED):
        return None
    layers, width, heads = (int(getattr(model, name).value_or(0)) for name in ("layers", "width", "heads"))
    vocabulary, kv_heads = int(model.vocabulary.value_or(0)), int(model.kv_heads.value_or(0))
    if min(layers, width, heads, kv_heads, vocabulary) <= 0:
        return None
    length = int(model.key_length.value_or(width // heads))
    tied = model.output_tied.value_or(default=False)
    tables = vocabulary * width * (1 if tied else 2)
    attention = width * length * 2 * (heads + kv_heads)
    left = (int(model.parameters.value_or(0)) - tables) / layers - attention
    if left <= 0:
        return None
    return HfShape(
        layers=layers, width=width, vocabulary=vocabulary, heads=heads, kv_heads=kv_heads, key_length=length,
        value_length=int(model.value_length.value_or(length)), feed_forward=round(left / (3 * width)), tied=tied,
        positions=int(model.context_trained.value_or(0)),
    )  # fmt: skip

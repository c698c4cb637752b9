"""/v1/models: which models a server offers, and the little that some say of them."""

from typing import Any, NamedTuple

from unslow.facts.values import Fact, not_found, reported
from unslow.look.openai_api.server import Server

MOST_MODELS = 1000
_LONGEST_NAME = 500
_MOST_TOKENS = 2**40


class Listed(NamedTuple):
    """One model of the list."""

    name: str
    root: Fact[str]
    """Where its files are, by vLLM and SGLang."""
    context_length: Fact[int]
    owner: str


def read_models(server: Server) -> list[Listed] | None:
    """The models of a server; None where what answers is no such list."""
    return parse_models(server.json("/v1/models"), f"{server.url}/v1/models")


def parse_models(data: Any, source: str) -> list[Listed] | None:
    """The models of an answer; those without a name are left out."""
    models = data.get("data") if isinstance(data, dict) else None
    if not isinstance(models, list):
        return None
    return [_listed(m, source) for m in models[:MOST_MODELS] if isinstance(m, dict) and _text(m.get("id"))]


def _listed(model: dict[str, Any], source: str) -> Listed:
    root, length = _text(model.get("root")), model.get("max_model_len")
    return Listed(
        name=_text(model["id"]),
        root=reported(root, source) if root else not_found(f"{source} does not say where the model lies"),
        context_length=_context(length, source),
        owner=_text(model.get("owned_by")),
    )


def _context(length: Any, source: str) -> Fact[int]:
    if isinstance(length, int) and not isinstance(length, bool) and 0 < length < _MOST_TOKENS:
        return reported(length, source)
    return not_found(f"{source} does not say the context")


def _text(value: Any) -> str:
    return value[:_LONGEST_NAME] if isinstance(value, str) else ""

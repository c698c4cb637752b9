"""How many tokens a text is, by the runtime's own tokenizer where it offers one."""

from collections.abc import Callable
from typing import Any

from unslow.look.bench.guest import Target
from unslow.look.openai_api.server import Server, json_of
from unslow.look.system import LookError, System

_TIMEOUT_S = 20.0
_MOST_TOKENS = 2**20


def read_tokens(system: System, target: Target, text: str) -> list[int] | None:
    """The tokens of a text as the server would read it, special ones too; None where it has no tokenizer to ask."""
    dialect = next((d for name, d in _DIALECTS.items() if target.runtime.endswith(name)), None)
    try:
        return parse_tokens(dialect(target.server(system), target.model, text)) if dialect else None
    except LookError:
        return None


def parse_tokens(answer: Any) -> list[int] | None:
    """The numbers of the tokens in an answer; some servers give each as an object with its text."""
    if isinstance(answer, dict):
        answer = next((answer[name] for name in ("tokens", "ids", "tokenize_response") if name in answer), None)
    if not isinstance(answer, list) or not 0 < len(answer) < _MOST_TOKENS:
        return None
    tokens = [token.get("id") if isinstance(token, dict) else token for token in answer]
    return [t for t in tokens if type(t) is int] if all(type(t) is int for t in tokens) else None


def _post(server: Server, path: str, body: dict[str, Any]) -> Any:
    return json_of(server.ask(path, "POST", body, _TIMEOUT_S))


def _llama_cpp(server: Server, model: str, text: str) -> Any:
    named = {"model": model} if model else {}  # a router wants it
    return _post(server, "/tokenize", {"content": text, "add_special": True, **named})


def _vllm(server: Server, model: str, text: str) -> Any:
    return _post(server, "/tokenize", {"model": model, "prompt": text, "add_special_tokens": True})


def _tgi(server: Server, model: str, text: str) -> Any:
    return _post(server, "/chat_tokenize", {"model": model, "messages": [{"role": "user", "content": text}]})


def _koboldcpp(server: Server, _model: str, text: str) -> Any:
    return _post(server, "/api/extra/tokencount", {"prompt": text})


_DIALECTS: dict[str, Callable[[Server, str, str], Any]] = {
    "llama.cpp": _llama_cpp,
    "vLLM": _vllm,
    "SGLang": _vllm,
    "TGI": _tgi,
    "KoboldCpp": _koboldcpp,
}
"""By how the name of the runtime ends; those that answer a chat count its template too."""

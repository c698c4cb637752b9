"""Answers made up at a given pace, with counts and times that agree with it."""

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from lab.replay.answers import Piece

_CREATED = 1_760_000_000
_AT = "2026-01-01T00:00:00Z"
_MOST_TOKENS = 100_000
_DEFAULT_TOKENS = 64
_WORDS = ("The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "then", "it", "rests")
_LLAMA_CPP = ("/completion",)
_OLLAMA = ("/api/generate", "/api/chat")
_OPENAI = ("/v1/completions", "/v1/chat/completions", "/api/v0/completions", "/api/v0/chat/completions")


class Pace(NamedTuple):
    """Tokens a second, of prompts and of answers."""

    prompt: float
    answer: float


class Work(NamedTuple):
    """One request: how many tokens, how long."""

    path: str
    model: str
    prompt_tokens: int
    tokens: int
    pace: Pace
    with_usage: bool

    @property
    def prefill_s(self) -> float:
        return self.prompt_tokens / self.pace.prompt

    @property
    def decode_s(self) -> float:
        return self.tokens / self.pace.answer

    @property
    def is_chat(self) -> bool:
        return self.path.endswith(("/chat", "/chat/completions"))


def generates(path: str) -> bool:
    """Whether a POST to this path generates text."""
    return path in _LLAMA_CPP + _OLLAMA + _OPENAI


def streams(path: str, sent: Any) -> bool:
    """Whether the answer comes word by word: Ollama's does unless told otherwise, the others' if asked to."""
    asked = sent.get("stream") if isinstance(sent, dict) else None
    return asked is not False if path in _OLLAMA else asked is True


def work_of(path: str, sent: Any, pace: Pace) -> Work:
    """What a request asks for; whatever it does not say has a default."""
    sent = sent if isinstance(sent, dict) else {}
    options = sent.get("options") if isinstance(sent.get("options"), dict) else {}
    given = [sent.get("max_tokens"), sent.get("n_predict"), options.get("num_predict")]
    tokens = next((n for n in given if type(n) is int and 0 < n <= _MOST_TOKENS), _DEFAULT_TOKENS)
    text = sent.get("prompt") or json.dumps(sent.get("messages") or "")
    usage = sent.get("stream_options")
    return Work(
        path=path,
        model=str(sent.get("model") or "replayed"),
        prompt_tokens=max(1, math.ceil(len(str(text)) / 4)),
        tokens=tokens,
        pace=pace,
        with_usage=isinstance(usage, dict) and usage.get("include_usage") is True,
    )


def pieces(work: Work) -> Iterator[Piece]:
    """The answer as a stream: a word for each token, then what was counted."""
    step = 1 / work.pace.answer
    for number in range(work.tokens):
        wait = work.prefill_s + step if number == 0 else step
        yield Piece(wait, _line(work, _word(number)))
    if work.path in _OLLAMA:
        yield Piece(0, json.dumps(_ollama_end(work)))
        return
    if work.path in _LLAMA_CPP:
        yield Piece(0, _event(_llama_end(work)))
        return
    yield Piece(0, _event(_openai(work, {"finish_reason": "length", **_text(work, "")})))
    if work.with_usage:
        yield Piece(0, _event({**_openai(work), "choices": [], "usage": _usage(work)}))
    yield Piece(0, "data: [DONE]\n")


def whole(work: Work) -> dict[str, Any]:
    """The answer in one piece."""
    text = "".join(_word(number) for number in range(work.tokens))
    if work.path in _OLLAMA:
        return {**_ollama_end(work), **_ollama_text(work, text)}
    if work.path in _LLAMA_CPP:
        return {**_llama_end(work), "content": text}
    choice = {"message": {"role": "assistant", "content": text}} if work.is_chat else {"text": text}
    answer = {**_openai(work, {"finish_reason": "length", **choice}), "usage": _usage(work)}
    if work.path.startswith("/api/v0/"):
        answer["stats"] = {
            "tokens_per_second": work.pace.answer,
            "time_to_first_token": work.prefill_s,
            "generation_time": work.decode_s,
            "stop_reason": "maxPredictedTokensReached",
        }
    return answer


def _word(number: int) -> str:
    return f"{_WORDS[number % len(_WORDS)]} "


def _line(work: Work, word: str) -> str:
    if work.path in _OLLAMA:
        start = {"model": work.model, "created_at": _AT, "done": False}
        return json.dumps({**start, **_ollama_text(work, word)})
    if work.path in _LLAMA_CPP:
        return _event({"index": 0, "content": word, "stop": False})
    return _event(_openai(work, {"finish_reason": None, **_text(work, word)}))


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n"


def _openai(work: Work, choice: dict[str, Any] | None = None) -> dict[str, Any]:
    kind = "chat.completion" if work.is_chat else "text_completion"
    choices = [{"index": 0, **choice}] if choice else []
    return {"id": "replayed-1", "object": kind, "created": _CREATED, "model": work.model, "choices": choices}


def _text(work: Work, word: str) -> dict[str, Any]:
    return {"delta": {"content": word} if word else {}} if work.is_chat else {"text": word}


def _usage(work: Work) -> dict[str, int]:
    total = work.prompt_tokens + work.tokens
    return {"prompt_tokens": work.prompt_tokens, "completion_tokens": work.tokens, "total_tokens": total}


def _llama_end(work: Work) -> dict[str, Any]:
    """llama-server counts the first token, which comes with the prompt, and times the steps after it."""
    timings = {
        "cache_n": 0,
        "prompt_n": work.prompt_tokens,
        "prompt_ms": work.prefill_s * 1000,
        "prompt_per_second": work.pace.prompt,
        "predicted_n": work.tokens,
        "predicted_ms": work.decode_s * 1000,
        "predicted_per_second": work.pace.answer,
    }
    return {"index": 0, "content": "", "stop": True, "tokens_predicted": work.tokens, "timings": timings}


def _ollama_text(work: Work, text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}} if work.is_chat else {"response": text}


def _ollama_end(work: Work) -> dict[str, Any]:
    """Times in nanoseconds, as Ollama gives them."""
    load_s = 0.02
    return {
        "model": work.model,
        "created_at": _AT,
        **_ollama_text(work, ""),
        "done": True,
        "done_reason": "length",
        "total_duration": round((load_s + work.prefill_s + work.decode_s) * 1e9),
        "load_duration": round(load_s * 1e9),
        "prompt_eval_count": work.prompt_tokens,
        "prompt_eval_duration": round(work.prefill_s * 1e9),
        "eval_count": work.tokens,
        "eval_duration": round(work.decode_s * 1e9),
    }

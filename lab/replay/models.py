"""The models that a replayed Ollama has: those of its recorded list, and those that clients derive and delete.

As in server/create.go, server/routes.go of Ollama: a derived model has its parent's weights and parameters, with those
that are given in their place; a name that is not there is a 404 (`model 'x' not found`).
"""

import hashlib
import json
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

from lab.replay.answers import Recorded

_TAGS, _SHOW = "GET /api/tags", "POST /api/show"


class Said(NamedTuple):
    """A status and what is sent with it."""

    status: int
    body: Any


class Models:
    """Answers what depends on the models there are; None for everything else."""

    def __init__(self, answers: Iterable[Recorded]) -> None:
        recorded = {answer.request: answer.body for answer in answers if not answer.when}
        self._listed: dict[str, dict[str, Any]] = {}
        self._made: dict[str, dict[str, Any]] = {}
        self._show: dict[str, Any] = recorded.get(_SHOW) or {}
        if isinstance(recorded.get(_TAGS), dict):
            self._listed = {model["name"]: model for model in recorded[_TAGS]["models"]}
        self._lock = threading.Lock()

    def said(self, method: str, path: str, sent: Any) -> Said | None:
        """What Ollama says to a request for its models."""
        if not self._listed or not self._show:
            return None
        asked = sent if isinstance(sent, dict) else {}
        name = _full(str(asked.get("model") or asked.get("name") or ""))
        with self._lock:
            match f"{method} {path}":
                case "GET /api/tags" if self._made:
                    return Said(200, {"models": [*self._listed.values(), *self._made.values()]})
                case "POST /api/show" if name in self._made:
                    return Said(200, self._made[name]["show"])
                case "POST /api/create":
                    return self._create(name, asked)
                case "DELETE /api/delete":
                    return self._delete(name)
        return None

    def _create(self, name: str, asked: dict[str, Any]) -> Said:
        parent = _full(str(asked.get("from") or ""))
        if not asked.get("from"):
            return Said(400, {"error": "neither 'from' or 'files' was specified"})
        if parent not in self._listed and parent not in self._made:
            return Said(500, {"error": "pull model manifest: file does not exist"})
        base = self._made[parent]["show"] if parent in self._made else self._show
        parameters = {**_parameters(base), **{n: _word(v) for n, v in (asked.get("parameters") or {}).items()}}
        text = "\n".join(f"{n:<30} {value}" for n, value in sorted(parameters.items()))
        digest = hashlib.sha256(json.dumps([base["modelfile"], parameters]).encode()).hexdigest()
        listed = {**(self._listed.get(parent) or self._made[parent]), "name": name, "model": name, "digest": digest}
        self._listed.pop(name, None)
        self._made[name] = {**listed, "show": {**base, "parameters": text}}
        return Said(200, {"status": "success"})

    def _delete(self, name: str) -> Said:
        found = self._made.pop(name, None) or self._listed.pop(name, None)
        return Said(200, "") if found else Said(404, {"error": f"model '{name}' not found"})


def _parameters(shown: dict[str, Any]) -> dict[str, str]:
    pairs = (line.split(None, 1) for line in str(shown.get("parameters", "")).splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _full(name: str) -> str:
    return name if not name or ":" in name else f"{name}:latest"

"""Ollama's own way to keep settings: a model derived from another; the other one stays as it is.

As in server/create.go and server/routes.go of Ollama: `from` and `parameters` since 0.5.5; a model that is not there
would be pulled, so it is asked for first. Parameters that are not named are those of the parent.
"""

import re
from typing import Any

from unslow.act.disk import Disk
from unslow.act.journal import ModelStep
from unslow.facts.errors import UserError
from unslow.facts.masking import key_headers
from unslow.look.runtimes.ollama.places import full_name
from unslow.look.system import Answer, ExchangeError, LookError, System

CREATE_TIMEOUT_S = 120.0  # Weights are not copied, only named; a slow disk hashes them again
_OK, _NOT_FOUND = 200, 404
_LONGEST = 300
_NAME = re.compile(r"[\w.][\w.:/@-]{0,200}", re.ASCII)
_FROM = re.compile(r"^FROM[ \t]+(\S.*)$", re.MULTILINE)


class RefusedRequest(LookError):  # noqa: N818 (reads as what happened)
    """The server answered, and the answer is no."""


def checked_name(name: str) -> str:
    """A name for a model; UserError where Ollama would not take it."""
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is not a valid model name", "for example qwen3:8b-fast")
    return name


class Ollama:
    """What is asked of a server, each question that changes something through the one door."""

    def __init__(self, system: System, disk: Disk, api_key: str = "") -> None:
        self._system, self._disk, self._headers = system, disk, key_headers(api_key)

    def digests(self, url: str) -> dict[str, str]:
        """Every model of a server with what tells it from others; LookError where it does not say."""
        said = _parse_object(self._system.request("GET", f"{url}/api/tags", headers=self._headers), url)
        models = said.get("models")
        if not isinstance(models, list):
            raise LookError(f"{url} does not list its models")
        known = [model for model in models if isinstance(model, dict)]
        return {full_name(str(m.get("name") or m.get("model") or "")): str(m.get("digest") or "") for m in known}

    def create(self, step: ModelStep) -> str:
        """Derive the model; its digest. LookError where the server refuses, or is not heard to the end."""
        body = {"model": step.name, "from": step.parent, "parameters": step.parameters, "stream": False}
        self._disk.step("create model", step.name)
        try:
            answer = self._system.request("POST", f"{step.url}/api/create", body, self._headers, CREATE_TIMEOUT_S)
        except ExchangeError as error:
            if error.kind != "refused":  # who hangs up in the middle may have done it
                raise
            raise RefusedRequest(error.why) from error
        self._disk.step("created model", step.name)
        said = _parse_object(answer, step.url)
        if said.get("status") != "success":
            raise LookError(f"{step.url} did not confirm that {step.name} was created: {str(said)[:_LONGEST]}")
        digest = self.digests(step.url).get(full_name(step.name), "")
        if not digest:
            raise RefusedRequest(f"{step.url} reports that it created {step.name}, but does not list it")
        return digest

    def created_digest(self, step: ModelStep) -> str:
        """The digest of the model where it is the one that the step makes; empty where there is none, or another."""
        digest = self.digests(step.url).get(full_name(step.name), "")
        if not digest or (step.digest and digest != step.digest):
            return ""
        if step.digest:
            return digest
        # whether it has the parent's weights and the parameters: no other trace is left of who made it
        shown = []
        for name in (step.name, step.parent):
            answer = self._system.request("POST", f"{step.url}/api/show", {"model": name}, self._headers)
            shown.append({} if answer.status == _NOT_FOUND else _parse_object(answer, step.url))
        weights = [_FROM.findall(str(model.get("modelfile") or "")) for model in shown]
        lines = {tuple(line.split(None, 1)) for line in str(shown[0].get("parameters") or "").splitlines()}
        wanted = {
            (name, str(value).lower() if isinstance(value, bool) else str(value))
            for name, value in step.parameters.items()
        }
        return digest if weights[0] and weights[0] == weights[1] and wanted <= lines else ""

    def delete(self, step: ModelStep) -> None:
        """Remove the model that was made; it may be gone already."""
        self._disk.step("delete model", step.name)
        answer = self._system.request("DELETE", f"{step.url}/api/delete", {"model": step.name}, self._headers)
        self._disk.step("deleted model", step.name)
        if answer.status != _NOT_FOUND:
            _check_status(answer, step.url)


def _check_status(answer: Answer, url: str) -> Answer:
    if answer.status == _OK:
        return answer
    try:
        said = answer.json()
    except LookError:
        said = answer.body[:_LONGEST].decode("utf-8", "replace")
    error = said.get("error") if isinstance(said, dict) else said
    reason = str(error)[:_LONGEST].strip() or "no reason given"
    raise RefusedRequest(f"{url} refused ({answer.status}): {reason}")


def _parse_object(answer: Answer, url: str) -> dict[str, Any]:
    """The JSON object that a server answers with; LookError where it is anything else."""
    try:
        said = _check_status(answer, url).json()
    except RefusedRequest:
        raise
    except LookError as error:
        raise LookError(f"{url} {error.why}") from error
    if not isinstance(said, dict):
        raise LookError(f"{url} did not return an object: {str(said)[:_LONGEST]}")
    return said

"""Any other server with OpenAI's interface: it names its models, and its speed can be timed from outside.

Nothing in that interface tells where a model lies, how it is placed, or with which settings it was loaded. Whoever
knows more of the server runs unslow beside it, or gives its log to `unslow triage`.
"""

from collections.abc import Sequence
from typing import Any

from unslow.facts.commands import Commands
from unslow.facts.knob import Change
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Absence, Fact, Unknown, estimated, not_supported, reported
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.openai_api.models import Listed, parse_models
from unslow.look.openai_api.server import LOCKED, REFUSED, WANTED, Server, json_of
from unslow.look.processes import Process
from unslow.look.system import LookError, System

NAME = "OpenAI-compatible"
PORTS: tuple[int, ...] = ()
RANK = 9

_UNTOLD = (
    "version", "command", "gpu_layers", "layers", "slots", "kv_type_k", "kv_type_v", "flash_attention", "batch",
    "ubatch", "threads", "backends", "buffers", "busy_slots", "running_requests",
)  # fmt: skip
_HOW = "run unslow on the machine of the server, or give its log to `unslow triage`"
_SHOWN_MODELS = 5
_BY_OWNER = {"tabbyapi": "TabbyAPI (exllama)"}
"""Servers that say who they are in their list of models."""


def find(processes: Sequence[Process]) -> list[Process]:  # noqa: ARG001 (the contract of a runtime)
    """None: such a server can be any program."""
    return []


def read(process: Process, api_key: str) -> tuple[Subject, ...]:  # noqa: ARG001 (the contract of a runtime)
    """Nothing: none is found by its process."""
    return ()


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The models that a server lists; None where it lists none in OpenAI's way."""
    server = Server(system, url.rstrip("/").removesuffix("/v1"), api_key)
    answer = server.ask("/v1/models")
    if answer.status in LOCKED:
        reason, hint = REFUSED if api_key else WANTED
        raise LookError(f"{server.url} {reason}", Absence.FAILED, hint)
    models = parse_models(json_of(answer), f"{server.url}/v1/models")
    return None if models is None else (_subject(server.url, models),)


def _subject(url: str, models: list[Listed]) -> Subject:
    source = f"{url}/v1/models"
    facts: dict[str, Any] = dict.fromkeys(_UNTOLD, not_supported("OpenAI's interface does not tell it", _HOW))
    runtime = Runtime(
        name=reported(_name(models), source),
        url=reported(url, "given"),
        state=_state(models, source),
        context_length=models[0].context_length if len(models) == 1 else _which(models),
        **facts,
    )
    return Subject(runtime=runtime, model=_model(models, source))


def _name(models: list[Listed]) -> str:
    owners = {model.owner.lower() for model in models}
    return next((name for owner, name in _BY_OWNER.items() if owner in owners), NAME)


def _state(models: list[Listed], source: str) -> Fact[Any]:
    """A list of one is taken for what is loaded; a longer one is what could be."""
    return estimated("loaded", f"{source}: the only model") if len(models) == 1 else _which(models)


def _which(models: list[Listed]) -> Unknown:
    if not models:
        return Unknown("the server lists no model", "load one")
    shown = ", ".join(model.name for model in models[:_SHOWN_MODELS])
    more = f" and {len(models) - _SHOWN_MODELS} more" if len(models) > _SHOWN_MODELS else ""
    return not_supported(f"the server lists {shown}{more}, and does not say which of them is loaded", _HOW)


def _model(models: list[Listed], source: str) -> Model:
    if len(models) != 1:
        return Model(name=_which(models))
    return Model(name=reported(models[0].name, source), path=models[0].root)


def commands_for(
    changes: Sequence[Change],
    runtime: Runtime,  # noqa: ARG001 (the contract of a runtime)
    at_hand: AtHand = NOTHING,  # noqa: ARG001
) -> Commands:
    """Nothing: what the settings of an unknown program are called is not known."""
    return Commands(left_out=tuple((change, f"{NAME} has no setting for it") for change in changes))

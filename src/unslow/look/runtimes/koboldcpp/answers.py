"""What KoboldCpp's answers mean: its version, its model, the length of the context, and how the last request went."""

from typing import Any

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, failed, not_found, reported
from unslow.look.json_fields import amount, at, count, text, word
from unslow.look.openai_api.server import Server, json_of
from unslow.look.system import LookError, unknown

NAME = "KoboldCpp"
VERSION, MODEL = "/api/extra/version", "/api/v1/model"
CONTEXT, SPEED = "/api/extra/true_max_context_length", "/api/extra/perf"
_HIDDEN = "koboldcpp/protected-model"
_NO_MODEL = ("inactive", "koboldcpp/inactive", "")


def answers_as_kobold(server: Server) -> bool:
    """Whether KoboldCpp answers; LookError where nobody does."""
    return word(json_of(server.ask(VERSION)), "result") == NAME


def read_subject(server: Server) -> Subject:
    """Everything that it tells."""
    version, source = _ask(server, VERSION), f"{server.url}{VERSION}"
    model = _ask(server, MODEL)
    runtime = parse_speed(_ask(server, SPEED), f"{server.url}{SPEED}")
    facts: dict[str, Any] = {name: getattr(runtime, name) for name in runtime.__struct_fields__}
    facts |= {
        "name": reported(NAME, source),
        "version": text(version, source, "version"),
        "url": reported(server.url, "given"),
        "context_length": count(_ask(server, CONTEXT), f"{server.url}{CONTEXT}", "value"),
        "state": parse_state(model, f"{server.url}{MODEL}"),
    }
    return Subject(runtime=Runtime(**facts), model=Model(name=parse_name(model, f"{server.url}{MODEL}")))


def parse_name(data: Any, source: str) -> Fact[str]:
    """The model's name; whoever lacks the password is not told it."""
    name = word(data, "result")
    if name == _HIDDEN:
        return failed(f"{source}: a password is set", "give it with --api-key")
    if name in _NO_MODEL:
        return not_found(f"{source}: no model is loaded", "start KoboldCpp with --model FILE")
    return reported(name.removeprefix("koboldcpp/"), source)


def parse_state(data: Any, source: str) -> Fact[Any]:
    """Loaded, where it has a model at all."""
    name = word(data, "result")
    return not_found(f"{source}: no model is loaded") if name in _NO_MODEL else reported("loaded", source)


def parse_speed(data: Any, source: str) -> Runtime:
    """The last request, the queue, and the luck of the draft; old versions tell milliseconds for each token only."""
    if not count(data, source, "total_gens").value_or(0):
        why = data if isinstance(data, Unknown) else not_found(f"{source}: nothing has been generated yet")
        return Runtime(busy_slots=_busy(data, source), decode_tokens_per_s=why, prefill_tokens_per_s=why)
    return Runtime(
        busy_slots=_busy(data, source),
        deferred_requests=count(data, source, "queue"),
        decode_tokens_per_s=_speed(data, source, "last_eval_speed", "last_eval"),
        prefill_tokens_per_s=_speed(data, source, "last_process_speed", "last_process"),
        draft_acceptance=_acceptance(data, source),
    )


def _busy(data: Any, source: str) -> Fact[int]:
    idle = at(data, "idle")
    return reported(int(idle == 0), source) if idle in (0, 1) else failed(f"{source} holds no idle")


def _speed(data: Any, source: str, speed: str, milliseconds: str) -> Fact[float]:
    told = amount(data, source, speed)
    if isinstance(told, Known) and told.value > 0:
        return told
    each = amount(data, source, milliseconds)
    if isinstance(each, Known) and each.value >= 1e-3:  # noqa: PLR2004 (a million tokens a second is none)
        return reported(1000 / each.value, f"{source}: {milliseconds}")
    return failed(f"{source} holds no {speed}")


def _acceptance(data: Any, source: str) -> Fact[float]:
    right, wrong = (count(data, source, f"last_draft_{word}").value_or(0) for word in ("success", "failed"))
    return reported(right / (right + wrong), source) if right + wrong else not_found(f"{source}: nothing was drafted")


def _ask(server: Server, path: str) -> Any:
    try:
        return server.json(path)
    except LookError as error:
        return unknown(error)

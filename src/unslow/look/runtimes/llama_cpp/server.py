"""One server as a subject: its process, its answers, its log and its model file laid over one another."""

from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, Origin, Unknown, first_known, not_found, reported
from unslow.look.logs.llama_cpp import LlamaLog
from unslow.look.runtimes.llama_cpp.answers import subject_of
from unslow.look.runtimes.llama_cpp.arguments import Setting, told
from unslow.look.runtimes.llama_cpp.http import Answers, read_answers
from unslow.look.runtimes.llama_cpp.log_file import read_own_log
from unslow.look.runtimes.llama_cpp.process import FoundServer, absolute
from unslow.look.system import LookError, System

_TOLD = ("gpu_layers_set", "context_set", "fit", "fit_margin_bytes", "tensor_overrides", "device_set")
_CURRENT = ("state", "version", "slots", "context_per_slot")


def read_server(system: System, target: FoundServer | str, api_key: str = "") -> Subject:
    """Everything that can be seen of a server, by its process or by its URL alone."""
    if isinstance(target, str):
        answers = read_answers(system, target.rstrip("/"), api_key)
        return _with_file(system, _subject(answers, target.rstrip("/")), target="")
    settings = target.settings()
    url = url_of(settings)
    key = api_key or settings.get("api_key", Setting("", "")).value.split(",")[0]
    answers = read_answers(system, url.value, key) if isinstance(url, Known) else Answers(url, url, url, url, url)
    http = _own(_subject(answers, url.value_or("")), settings)
    path, log = read_own_log(system, target, settings)
    model = overlaid(_exact(http.model, log.model), Model(path=_model_path(target, settings, log)))
    subject = Subject(runtime=_settled(target, http.runtime, log.runtime, path), model=model)
    return _with_file(system, _without_false_table(subject), f"/proc/{target.pid}/root")


def url_of(settings: dict[str, Setting]) -> Fact[str]:
    """Where the server listens, seen from this machine."""
    host, port = settings.get("host", Setting("127.0.0.1", "")).value, settings.get("port", Setting("8080", "")).value
    if host.endswith(".sock"):
        return Unknown(f"it listens on the socket {host}", "give it a port with --port")
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 (read, not bound)
        host = "127.0.0.1"
    scheme = "https" if "certificate" in settings else "http"
    prefix = settings.get("api_prefix", Setting("", "")).value.strip("/")
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    return reported(f"{url}/{prefix}" if prefix else url, settings.get("port", Setting("", "default port")).source)


def _subject(answers: Answers, url: str) -> Subject:
    paths = {"health": "/health", "props": "/props", "models": "/v1/models", "slots": "/slots", "metrics": "/metrics"}
    subject = subject_of(answers, {name: url + path for name, path in paths.items()})
    runtime = msgspec.structs.replace(subject.runtime, url=reported(url, f"{url}/health") if url else answers.health)
    return msgspec.structs.replace(subject, runtime=runtime)


def _own(http: Subject, settings: dict[str, Setting]) -> Subject:
    """Nothing, where the model that answers is not the model that was started: another network has the same port."""
    started, answers = settings.get("model"), http.model.path
    if started is None or isinstance(answers, Unknown) or _name(started.value) == _name(answers.value):
        return http
    why = not_found(f"another server, with {answers.value}, answers at {http.runtime.url.value_or('this port')}")
    return Subject(runtime=Runtime(url=why, state=why))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _settled(found: FoundServer, http: Runtime, log: Runtime, log_path: Fact[str]) -> Runtime:
    """The log tells what was decided, the running server what holds now, the command line what was asked for."""
    asked = told(found.settings(), complete=isinstance(found.environment, Known))
    runtime = overlaid(overlaid(asked, http), log)
    changes: dict[str, Any] = {name: first_known(getattr(http, name), getattr(log, name)) for name in _CURRENT}
    for name in _TOLD:
        changes[name] = first_known(getattr(asked, name), getattr(log, name))
    return msgspec.structs.replace(
        runtime,
        name=reported("llama.cpp", f"/proc/{found.pid}/comm"),
        pid=reported(found.pid, "/proc"),
        url=http.url,
        command=found.command,
        environment=found.environment,
        log_path=log_path,
        resident_bytes=found.resident_bytes,
        **changes,
    )


def _exact(base: Model, over: Model) -> Model:
    """`over` on top, except where it only estimates what `base` was told."""
    keep = {
        name: getattr(base, name)
        for name in over.__struct_fields__
        if _origin(getattr(over, name)) is Origin.ESTIMATED and isinstance(getattr(base, name), Known)
    }
    return msgspec.structs.replace(overlaid(base, over), **keep)


def _origin(fact: Fact[Any]) -> Origin | None:
    return fact.origin if isinstance(fact, Known) else None


def _without_false_table(subject: Subject) -> Subject:
    """With tensors sent to the host by name, what lies there is more than the token table."""
    if not subject.runtime.tensor_overrides.value_or([]):
        return subject
    model = msgspec.structs.replace(subject.model, token_table_bytes=NOT_LOOKED)
    return msgspec.structs.replace(subject, model=model)


def _model_path(found: FoundServer, settings: dict[str, Setting], log: LlamaLog) -> Fact[str]:
    path = settings.get("model", Setting(log.model.path.value_or(""), "")).value
    return absolute(path, found.folder) if path else not_found("the command line names no model file")


def _with_file(system: System, subject: Subject, target: str) -> Subject:
    """The header of the model file has the last word on the model."""
    path = subject.model.path
    if isinstance(path, Unknown) or not path.value.startswith("/"):
        return subject
    for root in dict.fromkeys((target, "")):
        model = _model_from_file(system, root + path.value)
        if model is not None:
            model = msgspec.structs.replace(model, path=path)
            return msgspec.structs.replace(subject, model=overlaid(subject.model, model))
    return subject


def _model_from_file(system: System, path: str) -> Model | None:
    try:
        from unslow.look.models.gguf import model_facts, read_gguf  # noqa: PLC0415 (only where there is a file)

        return model_facts(read_gguf(system, path), path)
    except (ImportError, LookError):
        return None

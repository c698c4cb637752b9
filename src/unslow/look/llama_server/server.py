"""One server as a subject: its process, its answers, its log and its model file laid over one another."""

from collections.abc import Sequence

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, not_found, reported
from unslow.look.addresses import is_here
from unslow.look.command_line import Setting
from unslow.look.llama_server.address import front_of, read_api_key, url_of
from unslow.look.llama_server.answers import subject_of
from unslow.look.llama_server.arguments import without_secrets
from unslow.look.llama_server.builds import oldest_possible
from unslow.look.llama_server.http import Answers, read_answers
from unslow.look.llama_server.log_file import read_own_log
from unslow.look.llama_server.process import FoundServer, absolute
from unslow.look.llama_server.router_log import read_router_log
from unslow.look.llama_server.settle import settled
from unslow.look.llama_server.told import told
from unslow.look.logs.llama_cpp import LlamaLog
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.paths import is_absolute
from unslow.look.system import LookError, System

MOST_PROMPTS = 8


def read_server(system: System, target: FoundServer | str, api_key: str = "") -> Subject:
    """Everything that can be seen of a server, by its process or by its URL alone."""
    return _read_url(system, target, api_key) if isinstance(target, str) else _read_process(system, target, api_key)


def _read_url(system: System, url: str, api_key: str) -> Subject:
    url = url.rstrip("/")
    subject = http_subject(read_answers(system, url, api_key), reported(url, "given"))
    return with_file(system, subject, [""]) if is_here(url) else subject


def _read_process(system: System, found: FoundServer, api_key: str) -> Subject:
    settings = found.settings()
    url, key = url_of(settings), api_key or read_api_key(found.process)
    answers = read_answers(system, url.value, key) if isinstance(url, Known) else Answers(url, url, url, url, url)
    http = _own(http_subject(answers, url), settings)
    path, log = read_own_log(system, found, settings)
    if isinstance(path, Unknown):
        path, log = read_router_log(found, settings) or (path, log)
    asked = told(settings, complete=isinstance(found.environment, Known))
    subject = settled(asked, http, Subject(runtime=log.runtime, model=log.model), oldest_possible(answers.props))
    runtime = overlaid(subject.runtime, _of_process(found, http.runtime.url, path))
    model = overlaid(subject.model, Model(path=_model_path(found, settings, log)))
    whole = msgspec.structs.replace(subject, runtime=runtime, model=model, run=_run_of(log))
    return with_file(system, whole, found.process.roots())


def http_subject(answers: Answers, url: Fact[str]) -> Subject:
    """What a server's answers tell."""
    names = {"health": "/health", "props": "/props", "models": "/v1/models", "slots": "/slots", "metrics": "/metrics"}
    subject = subject_of(answers, {name: url.value_or("") + path for name, path in names.items()})
    return msgspec.structs.replace(subject, runtime=msgspec.structs.replace(subject.runtime, url=url))


def _own(http: Subject, settings: dict[str, Setting]) -> Subject:
    """Nothing, where the model that answers is not the model that was started: another network has the same port."""
    started, answers = settings.get("model"), http.model.path
    if started is None or isinstance(answers, Unknown) or _name(started.value) == _name(answers.value):
        return http
    why = not_found(f"another server, with {answers.value}, answers at {http.runtime.url.value_or('this port')}")
    return Subject(runtime=Runtime(url=why, state=why))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _of_process(found: FoundServer, url: Fact[str], log_path: Fact[str]) -> Runtime:
    """What the process itself shows."""
    return Runtime(
        name=reported("llama.cpp", f"/proc/{found.pid}/comm"),
        pid=reported(found.pid, "/proc"),
        url=url,
        command=_shown(found.command),
        environment=found.environment,
        log_path=log_path,
        resident_bytes=found.resident_bytes,
        container=found.process.container(),
        front=front_of(found),
    )


def _shown(command: Fact[list[str]]) -> Fact[list[str]]:
    """The command line without its keys."""
    return reported(without_secrets(command.value), command.source) if isinstance(command, Known) else command


def _run_of(log: LlamaLog) -> Run:
    """What the log tells of requests: of others, so that their speeds are no measurement."""
    done = log.completions
    if not isinstance(done, Known):
        return Run(load_s=log.load_s, logged_prompts=done)
    prompts = tuple(completion.prompt_tokens for completion in done.value[-MOST_PROMPTS:])
    return Run(load_s=log.load_s, logged_prompts=reported(prompts, done.source))


def _model_path(found: FoundServer, settings: dict[str, Setting], log: LlamaLog) -> Fact[str]:
    path = settings.get("model", Setting(log.model.path.value_or(""), "")).value
    return absolute(path, found.folder) if path else not_found("the command line names no model file")


def with_file(system: System, subject: Subject, roots: Sequence[str]) -> Subject:
    """The header of the model file has the last word on the model; a container has a root of its own."""
    path = subject.model.path
    if isinstance(path, Unknown) or not is_absolute(path.value):
        return subject
    for root in roots:
        model = _model_from_file(system, root + path.value, path.value)
        if model is not None:
            model = msgspec.structs.replace(model, path=path)
            return msgspec.structs.replace(subject, model=overlaid(subject.model, model))
    return subject


def _model_from_file(system: System, path: str, name: str) -> Model | None:
    try:
        return model_facts(read_gguf(system, path), name)
    except LookError:
        return None

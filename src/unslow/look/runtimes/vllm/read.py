"""One server as a subject: what it was told, what its log says, what it answers, laid over one another."""

from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, Unknown, not_found, reported
from unslow.look.addresses import is_here
from unslow.look.command_line import UNSET, Setting
from unslow.look.logs.vllm import DIALECT
from unslow.look.openai_api.models import Listed
from unslow.look.openai_api.server import Server
from unslow.look.processes import Process, words_of
from unslow.look.runtimes.vllm.answers import Answers, read_answers, subject_of
from unslow.look.runtimes.vllm.processes import is_engine
from unslow.look.runtimes.vllm.versions import with_defaults, without_dead_variable
from unslow.look.serving.address import url_of
from unslow.look.serving.config_file import config_path, read_config
from unslow.look.serving.model_folder import model_of_name, places_of, with_files
from unslow.look.serving.own_log import read_own_log
from unslow.look.serving.processes import of_process
from unslow.look.serving.vllm_flags import FLAGS, PROGRAM, model_of, told
from unslow.look.system import LookError, System, unknown

_PORT = "8000"
_LOG = "start it with its output in a file (`vllm serve … > vllm.log 2>&1`), or give a log to `unslow triage`"
_SAID_IN_LOG = ("attention", "kernel", "buffers", "kv_bytes", "device_used")
_SAID_ON_MACHINE = (
    "command", "eager", "quantization", "weights_type", "tensor_parallel", "pipeline_parallel", "max_sequences",
    "max_batched_tokens", "cpu_offload_bytes", "speculative",
)  # fmt: skip


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The server at a URL; None where it is not vLLM."""
    answers = read_answers(Server(system, url.rstrip("/"), api_key))
    if answers is None:
        return None
    subject = subject_of(answers)
    how = "run unslow on its machine, or start vLLM with VLLM_SERVER_DEV_MODE=1"
    runtime = _explained(subject.runtime, _SAID_ON_MACHINE + _SAID_IN_LOG, "its answers do not say", how)
    model = subject.model
    if is_here(url):
        model = with_files(system, model, _root(answers), {}, [""])
    return (msgspec.structs.replace(subject, runtime=with_defaults(runtime), model=model),)


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """A server by its process; an engine without one by what can be seen of it."""
    if is_engine(process):
        return (_engine(process),)
    command, environment = process.command(), process.environment()
    words = words_of(command)
    file = config_path(words)
    in_file = read_config(process, FLAGS, file) if file else {}
    settings = {**(in_file or {}), **FLAGS.settings(words, environment.value_or({}))}
    written = model_of(words, settings)
    answers, url = _answers(process.system, settings, api_key, written)
    path, log = read_own_log(process, DIALECT, _LOG)
    asked = told(settings, complete=isinstance(environment, Known) and in_file is not None)
    http = subject_of(answers) if isinstance(answers, Answers) else Subject(runtime=_unanswered(answers))
    runtime = overlaid(overlaid(without_dead_variable(_versioned(asked, http, log)), log.runtime), http.runtime)
    runtime = overlaid(runtime, of_process(process, PROGRAM, FLAGS, url, path))
    model = overlaid(model_of_name(written, "command line"), overlaid(log.model, http.model))
    files = with_files(process.system, model, written, places_of(process), process.roots())
    runtime = _explained(with_defaults(runtime), _SAID_IN_LOG, "vLLM says it only in its log", _LOG)
    return (Subject(runtime=runtime, model=files, run=http.run),)


def _answers(
    system: System, settings: dict[str, Setting], api_key: str, written: str
) -> tuple[Answers | Unknown, Fact[str]]:
    url = url_of(settings, _PORT)
    if isinstance(url, Unknown):
        return url, url
    key = api_key or settings.get("api_key", UNSET).value
    try:
        answers = read_answers(Server(system, url.value, key))
    except LookError as error:
        return unknown(error), url
    if answers is None:
        return not_found(f"something else answers at {url.value}"), url
    names = {written, settings.get("served_name", Setting(written, "")).value}
    if isinstance(answers.models, list) and not names & _names(answers.models):
        return not_found(f"another model answers at {url.value}"), url
    return answers, url


def _names(models: list[Listed]) -> set[str]:
    return {name for model in models for name in (model.name, model.root.value_or(""))}


def _versioned(asked: Runtime, http: Subject, log: Subject) -> Runtime:
    version = http.runtime.version if isinstance(http.runtime.version, Known) else log.runtime.version
    return msgspec.structs.replace(asked, version=version)


def _unanswered(why: Unknown) -> Runtime:
    facts: dict[str, Any] = dict.fromkeys(("state", "busy_slots", "running_requests", "kv_usage", "preemptions"), why)
    return Runtime(**facts)


def _engine(process: Process) -> Subject:
    """An engine that a program of its own runs, as with `LLM(...)`: it has no address to ask."""
    why = not_found("this engine runs inside a program of its own and answers nobody", _LOG)
    path, log = read_own_log(process, DIALECT, _LOG)
    runtime = Runtime(
        name=reported(PROGRAM, f"/proc/{process.pid}/comm"),
        pid=reported(process.pid, "/proc"),
        url=why,
        busy_slots=why,
        log_path=path,
        container=process.container(),
    )
    return Subject(runtime=overlaid(log.runtime, runtime), model=overlaid(Model(path=why), log.model))


def _explained(runtime: Runtime, names: tuple[str, ...], why: str, how_to_get: str) -> Runtime:
    """The runtime with a reason for what nobody could have looked at."""
    missing = {n: not_found(why, how_to_get) for n in names if getattr(runtime, n) == NOT_LOOKED}
    return msgspec.structs.replace(runtime, **missing)


def _root(answers: Answers) -> str:
    models = answers.models
    return models[0].root.value_or("") if isinstance(models, list) and models else ""

"""LM Studio as subjects: one for each model that it has loaded."""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, Unknown, not_found, not_supported, reported
from unslow.look.addresses import is_here
from unslow.look.llama_server.process import found_server
from unslow.look.llama_server.server import read_server, with_file
from unslow.look.openai_api.server import Server
from unslow.look.processes import Process
from unslow.look.runtimes.lm_studio.files import read_logged, read_model_path, with_folder
from unslow.look.runtimes.lm_studio.lms import Lms, Loaded, backends_of, read_lms
from unslow.look.runtimes.lm_studio.processes import DEFAULT_PORT, read_homes, read_port, servers_of
from unslow.look.runtimes.lm_studio.rest import Instance, greets, read_instances, with_size
from unslow.look.system import LookError, System

NAME = "LM Studio"
HOW_TO_GET = "run `lms log stream --source runtime`, load the model again, and give what it prints to `unslow triage`"
_UNTOLD = not_supported("LM Studio's API does not tell it", HOW_TO_GET)
_NOT_IN_API = (
    "gpu_layers", "layers", "devices", "buffers", "kv_type_k", "kv_type_v", "threads", "ubatch", "speculative",
    "draft_acceptance", "prompts_reprocessed", "tensor_overrides",
)  # fmt: skip
_NO_VERSION = not_supported("neither its API nor `lms` tells the version of the app", "Help > About in the app")
_NOTHING_LOADED = not_found("no model is loaded", "load one: `lms load`")
_SERVER_OFF = "switch the server on: `lms server start`, or Developer > Status in the app"


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """What answers at a URL, if it is LM Studio."""
    server = Server(system, url.rstrip("/").removesuffix("/v1"), api_key)
    if not greets(server):
        return None
    here = is_here(server.url)
    subjects = _served(server, read_homes(system) if here else [])
    return subjects or (_idle(server.url),)


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The app or the daemon: by its server where that is on, and by the llama-servers that it started."""
    system, homes = process.system, read_homes(process.system, process)
    children = [read_server(system, found_server(child)) for child in servers_of(process)]
    server = Server(system, f"http://127.0.0.1:{read_port(system, homes).value_or(DEFAULT_PORT)}", api_key)
    try:
        if not greets(server):
            raise LookError(f"something else answers at {server.url}")  # noqa: TRY301 (the same as no answer)
        subjects, otherwise = list(_served(server, homes)), _idle(server.url)
    except LookError as error:
        subjects, otherwise = [], _silent(error)
    joined = _joined(subjects, children) or [otherwise]
    return tuple(_with_process(subject, process) for subject in joined)


def _served(server: Server, homes: list[str]) -> tuple[Subject, ...]:
    """The models that a server has loaded; `homes` are those of this machine, and none for a server elsewhere."""
    instances = read_instances(server)
    told = read_lms(server.system, _port(server.url), homes) if homes and instances else Lms()
    return tuple(_subject(server, instance, told, homes) for instance in instances)


def _subject(server: Server, instance: Instance, told: Lms, homes: list[str]) -> Subject:
    loaded = next((one for one in told.loaded if one.id == instance.id), None)
    model = with_size(instance)
    path = read_model_path(server.system, homes, instance, loaded.path if loaded else "") if homes else _elsewhere()
    subject = Subject(
        runtime=_runtime(server.url, instance, loaded, told), model=msgspec.structs.replace(model, path=path)
    )
    subject = (
        with_folder(server.system, subject) if instance.format == "mlx" else with_file(server.system, subject, [""])
    )
    subject = read_logged(server.system, homes, subject) if homes else subject
    named = msgspec.structs.replace(subject.model, name=reported(instance.id, server.url))
    return msgspec.structs.replace(subject, model=named)


def _runtime(url: str, instance: Instance, loaded: Loaded | None, told: Lms) -> Runtime:
    untold: dict[str, Any] = dict.fromkeys(_NOT_IN_API, _UNTOLD)
    engine = (told.engines or {}).get(instance.format or "gguf", "")
    known = overlaid(instance.runtime, loaded.runtime) if loaded else instance.runtime
    named = Runtime(
        name=reported(NAME, url),
        url=reported(url, "given"),
        version=_NO_VERSION,
        backends=backends_of(engine, "lms runtime ls") if told.engines is not None else _UNTOLD,
        **untold,
    )
    return overlaid(named, known)


def _elsewhere() -> Unknown:
    return not_supported("the file lies on another machine", "run unslow there")


def _idle(url: str) -> Subject:
    runtime = Runtime(name=reported(NAME, url), url=reported(url, "given"), state=_NOTHING_LOADED)
    return Subject(runtime=runtime, model=Model(name=_NOTHING_LOADED, path=_NOTHING_LOADED))


def _silent(error: LookError) -> Subject:
    why = not_found(f"its server does not tell: {error.why}", error.how_to_get or _SERVER_OFF)
    return Subject(runtime=Runtime(url=why, state=why), model=Model(name=why, path=why))


def _joined(served: list[Subject], children: list[Subject]) -> list[Subject]:
    """What the server says of a model, with what the llama-server that runs it shows; each of those belongs to one."""
    left, result = list(children), []
    for subject in served:
        child = _child_of(subject, left, alone=len(served) == len(children) == 1)
        if child:
            left.remove(child)
        result.append(_over(subject, child) if child else subject)
    return result + left


def _over(subject: Subject, child: Subject) -> Subject:
    """Clients know LM Studio's address and its name for the model: any other name could make it load one."""
    runtime = overlaid(subject.runtime, child.runtime)
    model = overlaid(subject.model, child.model)
    return Subject(
        runtime=msgspec.structs.replace(runtime, url=subject.runtime.url),
        model=msgspec.structs.replace(model, name=subject.model.name),
    )


def _child_of(subject: Subject, children: list[Subject], *, alone: bool) -> Subject | None:
    path = subject.model.path.value_or("")
    by_file = [child for child in children if path and child.model.path.value_or("") == path]
    return next(iter(by_file), children[0] if alone and children else None)


def _with_process(subject: Subject, process: Process) -> Subject:
    runtime = subject.runtime
    shown = msgspec.structs.replace(
        runtime,
        name=reported(NAME, f"/proc/{process.pid}/comm"),
        version=_NO_VERSION,  # that of the engine is not the app's
        pid=runtime.pid if isinstance(runtime.pid, Known) else reported(process.pid, "/proc"),
        command=runtime.command if isinstance(runtime.command, Known) else process.command(),
        environment=runtime.environment if isinstance(runtime.environment, Known) else process.environment(),
        container=process.container(),
    )
    return msgspec.structs.replace(subject, runtime=shown)


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)

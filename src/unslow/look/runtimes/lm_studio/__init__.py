"""LM Studio: the app, or its headless daemon `llmster`; both serve on port 1234 once the server is switched on.

Its REST API tells which models are loaded and with which context; of layers, devices and cache types it tells nothing:
those are in the command line of the llama-server that it starts and in `lms log stream --source runtime`. What changed:
REST v0 came with 0.3.6; REST v1, `llmster` and parallel requests with 0.4.0; since 0.4.15 the load lines of llama.cpp
are no longer in the Developer Logs, and until about 0.4.17 its llama-server wrote no log at all.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, estimated_fact, not_found, not_supported, reported_fact
from unslow.look.models.safetensors import model_facts, read_checkpoint
from unslow.look.models.stores import find_at, read_surroundings
from unslow.look.models.stores import lm_studio as store
from unslow.look.openai_api import OK, Server, json_if_ok
from unslow.look.processes import Process, ProcessSigns, outermost, read_processes, started_by, words_of
from unslow.look.runtimes._gguf_process import is_server, read_log
from unslow.look.runtimes._gguf_server import read_server, settled_subject, with_file
from unslow.look.runtimes.lm_studio.api import V0, V1, Instance, Lms, backends_of, greets, parse_v0, parse_v1, read_lms
from unslow.look.server_answers import value_at
from unslow.look.system import Answer, LookError, System, try_look
from unslow.look.system.http import is_local_url

NAME = "LM Studio"
PORTS = (1234,)
RANK = 0
_APPS = ("LM Studio", "lm-studio", "llmster")
_WORKERS = ("node", "llama-server")
PROCESSES = ProcessSigns((*_APPS, *_WORKERS), r"lm.?studio|llmster")
DEFAULT_PORT = 1234
LOGS = "server-logs"
HOW_TO_GET = "run `lms log stream --source runtime`, load the model again, and give what it prints to `unslow triage`"
_HOME = re.compile(r"^(/.{0,400}?/(?:\.lmstudio|\.cache/lm-studio))/")
_CONFIG = ".internal/http-server-config.json"
_SMALL = 65536
_SAFE = re.compile(r"(?!.*(?:^|/)\.\.(?:/|$))[^/\0][^\0]*")
_UNTOLD = not_supported("LM Studio's API does not report it", HOW_TO_GET)
_NOT_IN_API = (
    "gpu_layers", "layers", "devices", "buffers", "kv_type_k", "kv_type_v", "threads", "ubatch", "speculative",
    "draft_acceptance", "prompts_reprocessed", "tensor_overrides",
)  # fmt: skip
_NO_VERSION = not_supported("neither its API nor `lms` reports the app's version", "Help > About in the app")
_NOTHING_LOADED = not_found("no model is loaded", "load one: `lms load`")
_SERVER_OFF = "switch the server on: `lms server start`, or Developer > Status in the app"


def find(processes: Sequence[Process]) -> list[Process]:
    """The app or the daemon; the many processes that they start are theirs, unless nothing else is to be seen."""
    workers = [p for p in processes if p.name in _WORKERS and _home_in(words_of(p.command()))]
    return outermost([p for p in processes if p.name.startswith(_APPS) or p in workers], processes)


def _home_in(paths: Sequence[str]) -> str:
    return next((found[1] for path in paths if (found := _HOME.match(path))), "")


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The app or the daemon: by its server where that is on, and by the llama-servers that it started."""
    system, homes = process.system, read_homes(process.system, process)
    family = [process, *started_by(process, read_processes(system))]
    children = [read_server(system, member) for member in family if is_server(member)]
    server = Server(system, f"http://127.0.0.1:{read_port(system, homes).value_or(DEFAULT_PORT)}", api_key)
    try:
        if not greets(server):
            raise LookError(f"something else answers at {server.url}")  # noqa: TRY301 (the same as no answer)
        subjects, otherwise = list(_served_models(server, homes)), _idle(server.url)
    except LookError as error:
        why = not_found(f"its server does not say: {error.why}", error.how_to_get or _SERVER_OFF)
        silent = Runtime().with_facts(url=why, state=why)
        subjects, otherwise = [], Subject(runtime=silent, model=Model(name=why, path=why))
    found = []
    for subject in _join_children(subjects, children) or [otherwise]:
        own = subject.runtime.process
        shown = subject.runtime.with_facts(
            name=reported_fact(NAME, f"/proc/{process.pid}/comm"),
            version=_NO_VERSION,
            pid=own.pid if isinstance(own.pid, Known) else reported_fact(process.pid, "/proc"),
            command=own.command if isinstance(own.command, Known) else process.command(),
            environment=own.environment if isinstance(own.environment, Known) else process.environment(),
            container=process.container(),
        )
        found.append(msgspec.structs.replace(subject, runtime=shown))
    return tuple(found)


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """What answers at a URL, if it is LM Studio."""
    server = Server(system, url.rstrip("/").removesuffix("/v1"), api_key)
    if not greets(server):
        return None
    homes = read_homes(system) if is_local_url(server.url) else []
    return _served_models(server, homes) or (_idle(server.url),)


def _served_models(server: Server, homes: list[str]) -> tuple[Subject, ...]:
    for path, parse in ((V1, parse_v1), (V0, parse_v0)):
        instances = parse(server.json(path), f"{server.url}{path}")
        if instances is not None:
            break
    else:
        raise LookError(f"{server.url}: neither {V1} nor {V0} lists models", how_to_get="update LM Studio")
    parts = urlsplit(server.url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    told = read_lms(server.system, port, homes) if homes and instances else Lms()
    return tuple(_subject(server, instance, told, homes) for instance in instances)


def _subject(server: Server, instance: Instance, told: Lms, homes: list[str]) -> Subject:
    system, url = server.system, server.url
    below, shown = told.loaded.get(instance.id, ("", Runtime()))
    path: Fact[str] = not_supported("the file is on another machine", "run unslow there")
    if homes:
        path = read_model_path(system, homes, instance, below)
    untold: dict[str, Any] = dict.fromkeys(_NOT_IN_API, _UNTOLD)
    engine = (told.engines or {}).get(instance.format or "gguf", "")
    named = Runtime(name=reported_fact(NAME, url), version=_NO_VERSION).with_facts(
        url=reported_fact(url, "given"),
        backends=backends_of(engine, "lms runtime ls") if told.engines is not None else _UNTOLD,
        **untold,
    )
    model, size = msgspec.structs.replace(instance.model, path=path), instance.size_bytes
    if isinstance(size, Known):  # of its files, which may hold more than its weights: a projector for images
        model = msgspec.structs.replace(model, weights_bytes=estimated_fact(size.value, f"{size.source}: size_bytes"))
    subject = Subject(runtime=overlaid(named, overlaid(instance.runtime, shown)), model=model)
    subject = with_folder(system, subject) if instance.format == "mlx" else with_file(system, subject, [""])
    subject = read_logged(system, homes, subject) if homes else subject
    model = msgspec.structs.replace(subject.model, name=reported_fact(instance.id, url))
    return msgspec.structs.replace(subject, model=model)


def _idle(url: str) -> Subject:
    runtime = Runtime(name=reported_fact(NAME, url), state=_NOTHING_LOADED)
    runtime = runtime.with_facts(url=reported_fact(url, "given"))
    return Subject(runtime=runtime, model=Model(name=_NOTHING_LOADED, path=_NOTHING_LOADED))


def _join_children(served: list[Subject], children: list[Subject]) -> list[Subject]:
    """What the server says of a model, with what the llama-server that runs it shows; each of those belongs to one."""
    left, result = list(children), []
    for subject in served:
        alone = len(served) == len(children) == 1
        path = subject.model.path.value_or("")
        by_file = [child for child in left if path and child.model.path.value_or("") == path]
        child = next(iter(by_file), left[0] if alone and left else None)
        if child is None:
            result.append(subject)
            continue
        left.remove(child)
        # clients know LM Studio's address and its name for the model: any other name could make it load one
        runtime, model = overlaid(subject.runtime, child.runtime), overlaid(subject.model, child.model)
        runtime = runtime.with_facts(url=subject.runtime.process.url)
        result.append(Subject(runtime=runtime, model=msgspec.structs.replace(model, name=subject.model.name)))
    return result + left


def read_homes(system: System, process: Process | None = None) -> list[str]:
    """Where it may keep its things: by the program that runs, else where it does so by default."""
    programs = [process.link("exe").value_or(""), *words_of(process.command())[:1]] if process else []
    homes = try_look([], lambda: store.homes(system, read_surroundings(system)))
    return list(dict.fromkeys(filter(None, [_home_in(programs), *homes])))


def read_port(system: System, homes: Sequence[str]) -> Fact[int]:
    """Where its server listens, by its own settings; the usual port without them."""
    for home in homes:
        path = f"{home}/{_CONFIG}"
        data = try_look(b"", system.read_bytes, path, _SMALL)
        port = value_at(json_if_ok(Answer(OK, data)), "port")
        if type(port) is int and 0 < port < 2**16:
            return reported_fact(port, path)
    return estimated_fact(DEFAULT_PORT, "default of LM Studio")


def read_model_path(system: System, homes: Sequence[str], instance: Instance, below: str) -> Fact[str]:
    """The file of a loaded model: as `lms ps` has it, else the only one of exactly its size."""
    folders = [store.downloads(system, home) for home in homes]
    if folders and _SAFE.fullmatch(below):
        for folder in folders:
            with suppress(LookError):
                if system.read_head(f"{folder}/{below}", 4):
                    return reported_fact(f"{folder}/{below}", "lms ps: path")
        return reported_fact(f"{folders[0]}/{below}", "lms ps: path")
    size = instance.size_bytes
    for folder in folders if isinstance(size, Known) else ():
        models = try_look((), find_at, system, folder)
        paths = {model.path for model in models if model.size_bytes == size.value_or(None)}
        if len(paths) == 1:
            return estimated_fact(paths.pop(), f"the only file in {folder} of this size")
    return not_found("no file of exactly this size is in LM Studio's model folder", "`lms ps --json` shows the path")


def with_folder(system: System, subject: Subject) -> Subject:
    """With what the files of a model for MLX say of it, which is a folder of safetensors."""
    known, path = subject.model, subject.model.path.value_or("")
    read = try_look(Model(), lambda: model_facts(read_checkpoint(system, path), path))
    named = msgspec.structs.replace(overlaid(known, read), name=known.name, path=known.path)
    return msgspec.structs.replace(subject, model=named)


def read_logged(system: System, homes: Sequence[str], subject: Subject) -> Subject:
    """With what the server's newest log says of this model; versions since 0.4.15 write nothing of its load."""
    for home in homes:
        try:
            path = _newest(system, f"{home}/{LOGS}")
            log = read_log(system, path)
        except LookError:
            continue
        noted = subject.runtime.with_facts(log_path=reported_fact(path, home))
        subject = msgspec.structs.replace(subject, runtime=noted)
        paths = [log.model.path.value_or(""), subject.model.path.value_or("")]
        logged, loaded = (path.replace("\\", "/").rpartition("/")[2] for path in paths)
        if logged != loaded or not all(paths):  # it speaks of another model
            return subject
        decided = settled_subject(Runtime(), subject, Subject(runtime=log.runtime, model=log.model))
        named = decided.runtime.with_facts(name=noted.name, url=noted.process.url)
        return msgspec.structs.replace(decided, runtime=named)
    return subject


def _newest(system: System, folder: str) -> str:
    """The last file of the last month: `2026-08/2026-08-13.1.log`."""
    months = [name for name in system.list_dir(folder) if re.fullmatch(r"\d{4}-\d{2}", name)]
    names = [name for name in system.list_dir(f"{folder}/{months[-1]}") if name.endswith(".log")] if months else []
    if not names:
        raise LookError(f"{folder}: no logs")
    # by the day, and then by the number, where it has one
    parted = [name.removesuffix(".log").partition(".") for name in names]
    keys = [(day, int(number) if number.isdecimal() else 0) for day, _, number in parted]
    return f"{folder}/{months[-1]}/{names[keys.index(max(keys))]}"

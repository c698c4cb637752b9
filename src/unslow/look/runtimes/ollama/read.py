"""Ollama as subjects: one for each model that it has loaded."""

from collections.abc import Sequence

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, first_known, not_found, not_supported, reported
from unslow.look.addresses import is_here
from unslow.look.llama_server.server import with_file
from unslow.look.openai_api.server import Server
from unslow.look.paths import name_of
from unslow.look.processes import Process
from unslow.look.runtimes.ollama.api import Loaded, is_ollama, read_loaded, read_names, read_version
from unslow.look.runtimes.ollama.child import Seen, parse_load, read_child
from unslow.look.runtimes.ollama.logs import HOW_TO_GET, Log, last_load_of, read_app_log, read_log
from unslow.look.runtimes.ollama.processes import DEFAULT_URL, Child, children_of, url_of
from unslow.look.runtimes.ollama.settle import server_facts, settled
from unslow.look.system import LookError, System, unknown

NAME = "Ollama"
_MOST_NAMED = 3
_ELSEWHERE = not_supported("it runs on another machine", "run unslow there")


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """What answers at a URL, if it is Ollama; its API tells nothing of layers, cache types and devices."""
    server = Server(system, url.rstrip("/"), api_key)
    if not is_ollama(server):
        return None
    here = is_here(server.url)
    known = Runtime(name=reported(NAME, server.url), url=reported(server.url, "given"), version=read_version(server))
    whole = msgspec.structs.replace(known, **_untold(here=here))
    loaded = read_loaded(server)
    log = read_app_log(system) if here else Log(_ELSEWHERE, [])
    whole = _with_log(whole, log) if log.lines else whole
    whole = _with_count(whole, loaded)
    subjects = [_by_url(system, whole, each, log, here=here) for each in loaded]
    return _with_failed_load(subjects, whole, log) or (_idle(whole, read_names(server)),)


def _with_log(whole: Runtime, log: Log) -> Runtime:
    """The server with what its log tells of it; its own answers say which version it is."""
    told = overlaid(whole, server_facts(log, not_supported("no process of it can be seen")))
    return msgspec.structs.replace(told, log_path=log.path, version=first_known(whole.version, told.version))


def _untold(*, here: bool) -> dict[str, Unknown]:
    why = not_supported("Ollama's API does not tell it", HOW_TO_GET) if here else _ELSEWHERE
    return dict.fromkeys(
        ("gpu_layers", "layers", "buffers", "devices", "kv_type_k", "kv_type_v", "flash_attention"), why
    )


def _by_url(system: System, whole: Runtime, loaded: Loaded, log: Log, *, here: bool) -> Subject:
    path = loaded.subject.model.path.value_or("")
    logged = parse_load(log, last_load_of(log, path) if path else None)
    subject = settled(whole, loaded, whole.warnings.value_or(()), logged=logged)
    return _described(system, subject, [""]) if here else subject


def _described(system: System, subject: Subject, roots: Sequence[str]) -> Subject:
    """With the header of the file, under the name by which people know the model."""
    described = with_file(system, subject, roots)
    name = first_known(subject.model.name, described.model.name)
    return msgspec.structs.replace(described, model=msgspec.structs.replace(described.model, name=name))


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The server and every process that it started for a model, with its log and its answers."""
    log = read_log(process)
    whole = _of_process(process, log)
    server = Server(process.system, whole.url.value_or(""), api_key)
    try:
        loaded, silent = read_loaded(server), None
        whole = _with_count(msgspec.structs.replace(whole, version=_version(server, whole)), loaded)
    except LookError as error:
        loaded, silent = [], unknown(error)
    children = [read_child(child, log) for child in children_of(process)]
    subjects = [_subject(whole, each, seen) for each, seen in _matched(loaded, children)]
    seen = _with_failed_load(subjects, whole, log)
    return seen or (_silent(whole, silent) if silent else _idle(whole, read_names(server)),)


def _with_count(whole: Runtime, loaded: list[Loaded]) -> Runtime:
    count = reported(len(loaded), f"{whole.url.value_or('')}/api/ps")
    return msgspec.structs.replace(whole, loaded_models=count)


def _with_failed_load(subjects: Sequence[Subject], whole: Runtime, log: Log) -> tuple[Subject, ...]:
    """The subjects, and one more for the last load where that failed: nothing that is loaded tells of it."""
    logged = parse_load(log, last_load_of(log, ""))
    if logged.runtime.state.value_or("") != "failed":
        return tuple(subjects)
    return (*subjects, settled(whole, None, whole.warnings.value_or(()), logged=logged))


def _of_process(process: Process, log: Log) -> Runtime:
    """What is true of the server, whatever it has loaded; its variables are in its log where nobody may read them."""
    told = server_facts(log, process.environment())
    shown = Runtime(
        name=reported(NAME, f"/proc/{process.pid}/comm"),
        url=url_of(told.environment),
        pid=reported(process.pid, "/proc"),
        command=process.command(),
        log_path=log.path,
        container=process.container(),
    )
    return overlaid(told, shown)


def _version(server: Server, whole: Runtime) -> Fact[str]:
    version = read_version(server)
    return version if isinstance(version, Known) else whole.version


def _matched(loaded: list[Loaded], children: list[Seen]) -> list[tuple[Loaded | None, Seen | None]]:
    """Each model with its process, by the file of both; what is left over stands alone."""
    left, pairs = list(children), list[tuple[Loaded | None, Seen | None]]()
    for each in loaded:
        own = _child_of(each, left, alone=len(loaded) == len(children) == 1)
        if own:
            left.remove(own)
        pairs.append((each, own))
    return [*pairs, *((None, child) for child in left)]


def _child_of(loaded: Loaded, children: list[Seen], *, alone: bool) -> Seen | None:
    path = name_of(loaded.subject.model.path.value_or(""))
    by_file = [seen for seen in children if path and _file(seen.child) == path]
    by_name = [seen for seen in children if seen.child.kind == "mlx" and seen.child.model == loaded.name]
    return next(iter(by_file or by_name), children[0] if alone else None)


def _file(child: Child) -> str:
    return name_of(child.model)


def _subject(whole: Runtime, loaded: Loaded | None, seen: Seen | None) -> Subject:
    warnings = whole.warnings.value_or(())
    if seen is None:
        return settled(whole, loaded, warnings)
    subject = settled(whole, loaded, warnings, shown=seen.shown, logged=seen.logged)
    return _described(seen.child.process.system, subject, seen.child.process.roots())


def _idle(whole: Runtime, names: Sequence[str]) -> Subject:
    """A server without a loaded model; what it could load, and how to have it do so."""
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    has = f"; it has {', '.join(names[:_MOST_NAMED])}{more}" if names else ""
    host = "" if whole.url.value_or(DEFAULT_URL) == DEFAULT_URL else f"OLLAMA_HOST={whole.url.value_or('')} "
    ask = f"`{host}ollama run {names[0] if names else 'MODEL'} hello`"
    why = not_found(f"no model is loaded{has}", f"ask it something, such as {ask}, and look again")
    return Subject(runtime=msgspec.structs.replace(whole, state=why), model=Model(name=why, path=why))


def _silent(whole: Runtime, why: Unknown) -> Subject:
    return Subject(runtime=msgspec.structs.replace(whole, state=why), model=Model(name=why, path=why))

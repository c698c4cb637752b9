"""Ollama: a server on port 11434 that starts one process for each model that it has loaded.

Since 0.30 (2026-05) that process is a llama-server of llama.cpp, whose lines stand in the log; before, it was a runner
of its own. Its API tells which models are loaded, how many bytes of each it planned for GPUs and the context of one
request; layers, devices, cache type, batch and threads are in the command line of the process and in the log. What
changed: several requests at once and several models 0.1.33; flash attention 0.1.39 (on by itself since 0.30); the type
of the cache 0.5.0; OLLAMA_CONTEXT_LENGTH 0.5.13; the column CONTEXT of `ollama ps` 0.9.6; Vulkan 0.12.11; a default
context that grows with VRAM 0.15.5; LLAMA_ARG_* of llama-server, drafting and OLLAMA_IGPU_ENABLE 0.30.
"""

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Contradiction, Subject
from unslow.facts.values import (
    GIB,
    MIB,
    NOT_LOOKED,
    Fact,
    Known,
    estimated_fact,
    first_known,
    not_found,
    not_supported,
    reported_fact,
)
from unslow.look.command_line import name_of_path
from unslow.look.command_writer.starters import unit_fact
from unslow.look.contradictions import added_contradictions, contradiction, contradictions
from unslow.look.logs.ollama.load_lines import command_facts
from unslow.look.logs.ollama_options import asked_facts
from unslow.look.openai_api import OK, Server
from unslow.look.processes import Process, ProcessSigns, read_processes, started_by, words_of
from unslow.look.running_server import resident_bytes
from unslow.look.runtimes._gguf_process import is_server
from unslow.look.runtimes._gguf_server import exact_model, read_server, with_file
from unslow.look.runtimes.ollama.api import LoadedModel, read_loaded, read_names, read_version, with_doubt
from unslow.look.runtimes.ollama.bench import ask
from unslow.look.runtimes.ollama.log import HOW_TO_GET, Log, last_load, parse_load, read_app_log, read_log, server_facts
from unslow.look.system import LookError, System, unknown
from unslow.look.system.http import is_local_url, reachable_host

__all__ = ["NAME", "PORTS", "PROCESSES", "RANK", "ask", "find", "read", "read_url"]
PORTS = (11434,)
RANK = 0
PROCESSES = ProcessSigns(("ollama",))
NAME = "Ollama"
DEFAULT_URL = "http://127.0.0.1:11434"
_NAMES = ("ollama",)
_OLDEST_RUNNER = "ollama_llama_se"  # the kernel keeps fifteen letters of ollama_llama_server
_MOST_NAMED = 3
_ELSEWHERE = not_supported("it runs on another machine", "run unslow there")
_OUTER = ("name", "url", "version", "log_path", "container", "unit", "environment", "loads")
_NOTABLE_BYTES = 256 * MIB
_PARTS_STAYED = "the share counts offloaded layers as a whole; experts or other parts of them stayed in system memory"
Kind = Literal["llama-server", "runner", "mlx"]


class Child(NamedTuple):
    """A process that runs one model."""

    process: Process
    kind: Kind
    model: str  # The file, or for MLX the name of the model
    port: str


class SeenChild(NamedTuple):
    """What a process shows of itself, and what its load wrote."""

    child: Child
    shown: Subject  # The command line, the answers and the memory of the process
    logged: Subject  # What was decided and allocated, by the log


def find(processes: Sequence[Process]) -> list[Process]:
    """Every `ollama serve`; what it started belongs to it."""
    own = [p for p in processes if p.name.startswith(_NAMES) and not p.name.startswith(_OLDEST_RUNNER)]
    return [process for process in own if "serve" in words_of(process.command())[1:3]]


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The server and every process that it started for a model, with its log and its answers."""
    log = read_log(process)
    told = server_facts(log, process.environment())  # its variables are in its log where they cannot be read
    shown = Runtime().with_facts(
        name=reported_fact(NAME, f"/proc/{process.pid}/comm"),
        url=url_of(told.process.environment),
        pid=reported_fact(process.pid, "/proc"),
        command=process.command(),
        log_path=log.path,
        container=process.container(),
        unit=unit_fact(process),
    )
    whole = overlaid(told, shown)
    server = Server(process.system, whole.process.url.value_or(""), api_key)
    try:
        loaded, silent = read_loaded(server), None
        version = read_version(server)
        version = version if isinstance(version, Known) else whole.version
        count = reported_fact(len(loaded), f"{server.url}/api/ps")
        whole = whole.with_facts(version=version, loaded_models=count)
    except LookError as error:
        loaded, silent = [], unknown(error)
    subjects, warnings = [], whole.history.warnings.value_or(())
    children = children_of(process)
    read_children = [read_child(child, log, alone=len(children) == 1) for child in children]
    for each, seen in _match_processes(loaded, read_children):
        if seen is None:
            subjects.append(settled_subject(whole, each, warnings))
            continue
        subject = settled_subject(whole, each, warnings, shown=seen.shown, logged=seen.logged)
        subjects.append(_with_header(process.system, subject, seen.child.process.roots()))
    if found := _with_failed_load(subjects, whole, log):
        return found
    if silent:
        return (Subject(runtime=msgspec.structs.replace(whole, state=silent), model=Model(name=silent, path=silent)),)
    return (_idle(whole, read_names(server)),)


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """What answers at a URL, if it is Ollama; its API tells nothing of layers, cache types and devices."""
    server = Server(system, url.rstrip("/"), api_key)
    greeting = server.ask("/")  # others imitate parts of its API, not this
    if greeting.status != OK or not greeting.body.strip().startswith(b"Ollama is running"):
        return None
    here = is_local_url(server.url)
    why = not_supported("Ollama's API does not report it", HOW_TO_GET) if here else _ELSEWHERE
    untold = ("gpu_layers", "layers", "buffers", "devices", "kv_type_k", "kv_type_v", "flash_attention")
    whole = Runtime(name=reported_fact(NAME, server.url), version=read_version(server)).with_facts(
        url=reported_fact(server.url, "given"), **dict.fromkeys(untold, why)
    )
    loaded = read_loaded(server)
    log = read_app_log(system) if here else Log(_ELSEWHERE, [])
    if log.lines:  # its own answers say which version it is
        told = overlaid(whole, server_facts(log, not_supported("none of its processes is visible")))
        version = first_known(whole.version, told.version)
        whole = told.with_facts(log_path=log.path, version=version)
    whole = whole.with_facts(loaded_models=reported_fact(len(loaded), f"{server.url}/api/ps"))
    subjects = []
    for each in loaded:
        path = each.subject.model.path.value_or("")
        logged = parse_load(log, last_load(log, name_of_path(path))) if path else Subject()
        subject = settled_subject(whole, each, whole.history.warnings.value_or(()), logged=logged)
        subjects.append(_with_header(system, subject, [""]) if here else subject)
    return _with_failed_load(subjects, whole, log) or (_idle(whole, read_names(server)),)


def children_of(process: Process) -> list[Child]:
    """The processes with models, by their pids; those that only look for GPUs hold none."""
    found = []
    for child in started_by(process, read_processes(process.system)):
        words = words_of(child.command())
        kind: Kind
        if is_server(child):
            kind = "llama-server"
        elif child.name.startswith(_OLDEST_RUNNER) or (child.name.startswith(_NAMES) and "runner" in words[1:2]):
            kind = "mlx" if "--mlx-engine" in words else "runner"
        else:
            continue
        following = dict(reversed([*pairwise(words)]))  # the word after each; the first of several counts
        if model := following.get("--model"):
            found.append(Child(child, kind, model, following.get("--port", "")))
    return found


def read_child(child: Child, log: Log, *, alone: bool = True) -> SeenChild:
    """Everything that can be seen of one process; beside others, the requests in the log may be theirs."""
    process = child.process
    logged = parse_load(log, last_load(log, child.model, child.port))
    if not alone:
        unclear = not_found("the log does not tell which of the loaded models answered a request")
        of_requests = dict.fromkeys(("prompts_reprocessed", "top_k"), unclear)
        loading = Run(load_s=logged.run.load_s)
        logged = msgspec.structs.replace(logged, run=loading, runtime=logged.runtime.with_facts(**of_requests))
    if child.kind == "llama-server":
        return SeenChild(child, read_server(process.system, process), logged)
    # Ollama's own runner answers no questions; MLX has neither layers nor a file of GGUF
    command = process.command()
    facts: dict[str, Any] = {
        **command_facts(shlex.join(words_of(command)), f"/proc/{process.pid}/cmdline", is_server=False),
        "pid": reported_fact(process.pid, "/proc"),
        "command": command,
        "environment": process.environment(),
        "resident_bytes": resident_bytes(process),
    }
    model = Model(path=reported_fact(child.model, "command line"))
    if child.kind == "mlx":
        facts["backends"] = reported_fact(["MLX"], f"/proc/{process.pid}/cmdline")
        facts |= dict.fromkeys(("gpu_layers", "layers"), not_supported("MLX holds every layer in one memory"))
        model = Model(name=reported_fact(child.model, "command line"))
    return SeenChild(child, Subject(runtime=Runtime().with_facts(**facts), model=model), logged)


def url_of(environment: Fact[dict[str, str]]) -> Fact[str]:
    """Where a server with this environment listens, seen from this machine."""
    text = environment.value_or({}).get("OLLAMA_HOST", "").strip()
    if not text:
        return estimated_fact(DEFAULT_URL, "default of Ollama: no OLLAMA_HOST")
    source = environment.source if isinstance(environment, Known) else ""
    return reported_fact(parse_host(text), f"{source}: OLLAMA_HOST")


def parse_host(text: str) -> str:
    """`0.0.0.0`, `:8080`, `box:11434`, `[::]:11434` or a URL, as a URL; a scheme changes the port that is meant."""
    scheme, separator, rest = text.partition("://")
    scheme, rest = (scheme, rest) if separator else ("http", text)
    port = {"http": "80", "https": "443"}.get(scheme, "11434") if separator else "11434"
    host, _, path = rest.partition("/")
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?", host)
    name, port = (found[1], found[2] or port) if found else (host, port)
    url = f"{scheme}://{reachable_host(name)}:{port}"
    return f"{url}/{path.strip('/')}" if path.strip("/") else url


def _match_processes(
    loaded: list[LoadedModel], children: list[SeenChild]
) -> list[tuple[LoadedModel | None, SeenChild | None]]:
    """Each model with its process, by the file of both; what is left over stands alone."""
    left, pairs = list(children), list[tuple[LoadedModel | None, SeenChild | None]]()
    for each in loaded:
        alone = len(loaded) == len(children) == 1
        path = name_of_path(each.subject.model.path.value_or(""))
        by_file = [seen for seen in left if path and name_of_path(seen.child.model) == path]
        by_name = [seen for seen in left if seen.child.kind == "mlx" and seen.child.model == each.name]
        own = next(iter(by_file or by_name), left[0] if alone else None)
        if own:
            left.remove(own)
        pairs.append((each, own))
    return [*pairs, *((None, child) for child in left)]


def _with_header(system: System, subject: Subject, roots: Sequence[str]) -> Subject:
    described = with_file(system, subject, roots)
    name = first_known(subject.model.name, described.model.name)
    return msgspec.structs.replace(described, model=msgspec.structs.replace(described.model, name=name))


def _with_failed_load(subjects: Sequence[Subject], whole: Runtime, log: Log) -> tuple[Subject, ...]:
    """The subjects, and one more for the last load where that failed: nothing that is loaded tells of it."""
    logged = parse_load(log, last_load(log))
    if logged.runtime.state.value_or("") != "failed":
        return tuple(subjects)
    return (*subjects, settled_subject(whole, None, whole.history.warnings.value_or(()), logged=logged))


def _idle(whole: Runtime, names: Sequence[str]) -> Subject:
    """A server without a loaded model; what it could load, and how to have it do so."""
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    has = f"; it has {', '.join(names[:_MOST_NAMED])}{more}" if names else ""
    url = whole.process.url.value_or(DEFAULT_URL)
    host = "" if url == DEFAULT_URL else f"OLLAMA_HOST={url} "
    example = f"`{host}ollama run {names[0] if names else 'MODEL'} hello`"
    why = not_found(f"no model is loaded{has}", f"ask it something, such as {example}, and look again")
    return Subject(runtime=msgspec.structs.replace(whole, state=why), model=Model(name=why, path=why))


def settled_subject(
    whole: Runtime,
    loaded: LoadedModel | None,
    warnings: Sequence[str] = (),
    *,
    shown: Subject = Subject(),  # noqa: B008 (frozen, as the next)
    logged: Subject = Subject(),  # noqa: B008
) -> Subject:
    """The deciding value of every fact, and where the sources contradict one another.

    `shown` is what the process of the model shows, `logged` what its load wrote.
    """
    told = loaded.subject if loaded else Subject()
    runtime = overlaid(overlaid(overlaid(whole, told.runtime), shown.runtime), logged.runtime)
    # Clients know Ollama's name, address and version, not those of the process behind it
    outer = {name: whole.fact(name) for name in _OUTER if whole.fact(name) != NOT_LOOKED}
    outer["state"] = first_known(shown.runtime.state, told.runtime.state, runtime.state)
    first, second = whole.history.warnings, runtime.history.warnings
    if isinstance(first, Known) and isinstance(second, Known):
        outer["warnings"] = reported_fact(list(dict.fromkeys((*first.value, *second.value))), first.source)
    runtime = runtime.with_facts(**outer)
    model = exact_model(exact_model(told.model, shown.model), logged.model)
    if loaded:
        model = msgspec.structs.replace(model, name=first_known(told.model.name, model.name))
    # what is asked for by a variable and not had is a contradiction, not an estimate
    environment = whole.process.environment
    given = asked_facts(environment.value, environment.source) if isinstance(environment, Known) else {}
    wished = {name: given[name] for name in ("kv_type_k", "kv_type_v", "flash_attention") if name in given}
    wishes = Runtime().with_facts(**{n: reported_fact(f.value, f.source) for n, f in wished.items()})
    asked = overlaid(wishes, loaded.asked if loaded else Runtime())
    runtimes = (asked, shown.runtime, logged.runtime, told.runtime)
    sources = list(zip(("requested", "passed on", "decided", "reported"), runtimes, strict=True))
    found = added_contradictions(contradictions(sources, model, Machine()), ollama_contradictions(runtime, model))
    found = added_contradictions(found, logged.contradictions)
    # the context of all requests together, where only that of one is told
    per_slot, slots = runtime.context.per_slot, runtime.scheduling.slots.value_or(1)
    length: Fact[int] = NOT_LOOKED
    if isinstance(per_slot, Known):
        length = estimated_fact(per_slot.value * slots, f"{per_slot.source}: for each of {slots}")
    waiting, busy = runtime.scheduling.deferred_requests, runtime.scheduling.busy_slots
    if isinstance(busy, Known) and busy.value < slots:  # Ollama holds a request back only while every slot is taken
        waiting = first_known(waiting, reported_fact(0, f"{busy.source}: a slot is free"))
    runtime = runtime.with_facts(
        deferred_requests=waiting,
        context_length=first_known(runtime.context.length, length),
        gpu_layers_set=first_known(runtime.placement.gpu_layers_set, asked.placement.gpu_layers_set),
    )
    subject = Subject(runtime=runtime, model=model, run=logged.run, contradictions=found)
    return with_doubt(subject, list(warnings))


def ollama_contradictions(runtime: Runtime, model: Model) -> list[Contradiction]:
    """What `ollama ps` says of the GPU against the buffers that were allocated, and of a cache against its type."""
    found = []
    share, buffers = runtime.memory.vram_share, runtime.memory.buffers
    if isinstance(share, Known) and isinstance(buffers, Known) and share.value >= 1:
        host = sum(b.bytes for b in buffers.value if b.kind == "model" and not b.on_gpu)
        notable = host > model.token_table_bytes.value_or(0) + _NOTABLE_BYTES
        if notable and any(b.on_gpu for b in buffers.value):
            in_memory = f"{host / GIB:.1f} GiB of weights are in system memory"
            found.append(contradiction("vram_share", _PARTS_STAYED, ("100% GPU", share), (in_memory, buffers)))
    had, environment = runtime.cache.type_v, runtime.process.environment
    wanted = environment.value_or({}).get("OLLAMA_KV_CACHE_TYPE", "")
    told = isinstance(had, Known) and had.source.endswith("OLLAMA_KV_CACHE_TYPE")
    if wanted and isinstance(had, Known) and not told and wanted != had.value:
        source = environment.source if isinstance(environment, Known) else ""
        asked = reported_fact(wanted, f"{source}: OLLAMA_KV_CACHE_TYPE")
        said = (f"KV cache type {wanted} was requested", asked), (f"V cache type {had.value}", had)
        meaning = "a quantized KV cache needs flash attention, which this model or device does not have"
        found.append(contradiction("kv_type_v", meaning, *said))
    return found

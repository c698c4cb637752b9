"""llama-swap, a proxy that starts and stops llama-servers as models are asked for: which run, and which were loaded.

`GET /running` lists those that run, since v100 with their command lines; `GET /logs` has the last lines of its log.
Neither loads anything.
"""

import re
import shlex
import statistics
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import PastLoad, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Unknown, estimated_fact, reported_fact
from unslow.look.gguf_server_flags import parse_settings, without_secrets
from unslow.look.openai_api import OK, Server
from unslow.look.runtimes._gguf_process import SWAP, is_llama_server
from unslow.look.runtimes._gguf_server import read_server, requested_settings, settled_subject
from unslow.look.server_answers import objects_at, value_at
from unslow.look.system import System, try_look
from unslow.look.system.http import is_local_url

MOST_MODELS = 64
MOST_LOADS = 256
LOGS = "/logs"
_LOADED = re.compile(r"<([^<>]{1,200})> Health check passed on ")
_EXPIRED = re.compile(r"<([^<>]{1,200})> Unloading model, TTL of (\d{1,9})s reached")
_ANSWERED = re.compile(
    r'"POST /[^"]{1,300}" 200 \d{1,12} "[^"]{0,300}" ((?:\d{1,6}(?:\.\d{1,9})?(?:h|ms|µs|ns|m|s)){1,4})$'
)
_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)(h|ms|µs|ns|m|s)")
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def read_swap(server: Server) -> tuple[Subject, ...] | None:
    """One subject for each llama-server behind a llama-swap, which starts them as models are asked for; None elsewhere.

    `GET /running` lists those that run, since v100 with their command lines; it loads nothing.
    """
    running = try_look(None, server.json, "/running")
    if not isinstance(value_at(running, "running"), list):
        return None
    subjects = []
    for model in objects_at(running, "running", most=MOST_MODELS):
        if not isinstance(model.get("model"), str):
            continue
        command: list[str] = []  # an older llama-swap keeps it to itself
        with suppress(ValueError):
            command = shlex.split(str(model.get("cmd") or ""), comments=True)
        program = command[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe") if command else "llama-server"
        if is_llama_server(program, command):
            subjects.append(_swap_child(server, model, command))
    return tuple(subjects) or _unloaded(server)


def _unloaded(server: Server) -> tuple[Subject, ...]:
    """The model that was unloaded last because nothing asked for it; none where the log does not show one."""
    loads, ttl_s = _read_loads(server)
    if not loads or not loads[-1].expired:
        return ()
    source = f"{server.url}{LOGS}"
    runtime = Runtime().with_facts(
        name=estimated_fact("llama.cpp", "what llama-swap usually starts"),
        state=reported_fact("asleep", loads[-1].source),
        url=reported_fact(server.url, "given"),
        front=reported_fact(f"{SWAP} at {server.url}", f"{server.url}/running"),
        keep_alive_s=reported_fact(ttl_s, loads[-1].source),
        loads=reported_fact(loads, source),
    )
    return (Subject(runtime=runtime, model=Model(name=loads[-1].model)),)


def _read_loads(server: Server) -> tuple[list[PastLoad], float]:
    """The loads that the log still shows, and after how many idle seconds the last model was unloaded."""
    answer = try_look(None, server.ask, LOGS)
    if answer is None or answer.status != OK:
        return [], 0.0
    text = answer.body.decode("utf-8", "replace")
    expired = _EXPIRED.findall(text)
    return parse_swap_log(text, f"{server.url}{LOGS}"), float(expired[-1][1]) if expired else 0.0


def _swap_child(server: Server, model: dict[str, Any], command: list[str]) -> Subject:
    name = model["model"]
    # its own address where that is on this machine; else through the proxy, which passes on to what runs already
    url = str(model.get("proxy") or "").rstrip("/").replace("//localhost", "//127.0.0.1")
    if not (is_local_url(url) and is_local_url(server.url)):
        url = f"{server.url}/upstream/{quote(name, safe='')}"
    http = read_server(server.system, url, server.api_key)
    subject, source = http, f"{server.url}/running"
    front = reported_fact(f"llama-swap at {server.url}", source)
    own = Runtime().with_facts(name=reported_fact("llama.cpp", source), front=front)
    if command:
        subject = settled_subject(requested_settings(parse_settings(command, {}), complete=False), http, Subject())
        own = own.with_facts(command=reported_fact(without_secrets(command), source))
    known = Model(name=reported_fact(name, source)) if isinstance(subject.model.name, Unknown) else Model()
    whole = msgspec.structs.replace(
        subject, runtime=overlaid(subject.runtime, own), model=overlaid(subject.model, known)
    )
    return msgspec.structs.replace(whole, runtime=_with_history(server, model, whole))


def with_swap_history(system: System, subject: Subject, api_key: str) -> Subject:
    """A server that was found by its process, with what the llama-swap before it tells of its loads."""
    name, _, url = subject.runtime.process.front.value_or("").partition(" at ")
    port = _port(subject.runtime.process.url.value_or(""))
    if name != SWAP or port is None:
        return subject
    server = Server(system, url, api_key)
    for model in objects_at(try_look(None, server.json, "/running"), "running", most=MOST_MODELS):
        if _port(str(model.get("proxy") or "")) == port and isinstance(model.get("model"), str):
            return msgspec.structs.replace(subject, runtime=_with_history(server, model, subject))
    return subject


def _with_history(server: Server, model: dict[str, Any], subject: Subject) -> Runtime:
    """How long it stays loaded without requests, and every load that the log still shows; of its own by its file."""
    runtime, ttl = subject.runtime, model.get("ttl")
    if isinstance(ttl, int) and ttl >= 0:  # 0 is for ever
        runtime = runtime.with_facts(keep_alive_s=reported_fact(float(ttl or -1), f"{server.url}/running: ttl"))
    path, (loads, _) = subject.model.path.value_or(""), _read_loads(server)
    if not loads:
        return runtime
    if path:
        own = reported_fact(path, f"{server.url}/running")
        loads = [
            msgspec.structs.replace(load, model=own) if load.model.value_or("") == model["model"] else load
            for load in loads
        ]
    return runtime.with_facts(loads=reported_fact(loads, f"{server.url}{LOGS}"))


def parse_swap_log(text: str, source: str) -> list[PastLoad]:
    """Every load, with the requests that followed; the first of them waited for it.

    A log has no times, so a load takes what the first request after it took longer than others do.
    """
    loads: list[PastLoad] = []
    answers: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{source}:{number}"
        if found := _LOADED.search(line):
            loads.append(PastLoad(model=reported_fact(found[1], where), source=where))
            answers.append([])
        elif found := _EXPIRED.search(line):
            last = next((n for n in reversed(range(len(loads))) if loads[n].model.value_or("") == found[1]), None)
            if last is not None:
                loads[last] = msgspec.structs.replace(loads[last], expired=True)
        elif loads and (found := _ANSWERED.search(line)):
            answers[-1].append(sum(float(n) * _UNITS[unit] for n, unit in _DURATION.findall(found[1])))
    later = [seconds for each in answers for seconds in each[1:]]
    usual = statistics.median(later) if later else 0.0
    timed = [_timed(load, each, usual) for load, each in zip(loads, answers, strict=True)]
    return timed[-MOST_LOADS:]


def _timed(load: PastLoad, answers: list[float], usual: float) -> PastLoad:
    if not answers:
        return load
    seconds = estimated_fact(max(0.0, answers[0] - usual), f"{load.source}: the request that waited for it")
    return msgspec.structs.replace(load, seconds=seconds, requests=reported_fact(len(answers), load.source))


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None

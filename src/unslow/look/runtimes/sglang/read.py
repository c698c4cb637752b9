"""One server as a subject: what it was told, what its log says, what it answers, laid over one another."""

from collections.abc import Sequence
from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, not_found
from unslow.look.logs.sglang import DIALECT
from unslow.look.openai_api.server import Server
from unslow.look.processes import Process, words_of
from unslow.look.runtimes.sglang.answers import LOG, asked
from unslow.look.serving.address import is_local, url_of
from unslow.look.serving.arguments import Setting
from unslow.look.serving.model_folder import model_of_name, places_of, with_files
from unslow.look.serving.own_log import read_own_log
from unslow.look.serving.processes import find_servers, of_process
from unslow.look.serving.sglang_flags import FLAGS, PROGRAM, told
from unslow.look.system import LookError, System, unknown

_NAMES = ("sglang", "python", "pt_main_thread")


def find(processes: Sequence[Process]) -> list[Process]:
    """Every server; its scheduler and its other children belong to it."""
    return find_servers(processes, _NAMES, is_server)


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line starts a server."""
    head = list(words[:6])
    programs = [at for at, word in enumerate(head) if word.rpartition("/")[2] == "sglang"]
    return "sglang.launch_server" in head or any(head[at + 1 : at + 2] == ["serve"] for at in programs)


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The server at a URL; None where it is not SGLang."""
    server = Server(system, url.rstrip("/"), api_key)
    subject = asked(server)
    if subject is None:
        return None
    model = subject.model
    if is_local(url):  # a path on another machine says nothing about a file on this one
        model = with_files(system, model, model.path.value_or("") or model.name.value_or(""), {}, [""])
    return (msgspec.structs.replace(subject, model=model),)


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """A server by its process: what it was told, what its log says, what it answers."""
    environment, words = process.environment(), words_of(process.command())
    settings = FLAGS.settings(words, environment.value_or({}))
    url = url_of(settings, "30000")
    http = _answered(process.system, url, api_key or settings.get("api_key", Setting("", "")).value)
    path, log = read_own_log(process, DIALECT, LOG)
    wanted = told(settings, complete=True)
    runtime = overlaid(overlaid(wanted, log.runtime), http.runtime)
    runtime = overlaid(runtime, of_process(process, PROGRAM, FLAGS, url, path))
    written = settings["model"].value if "model" in settings else ""
    model = overlaid(model_of_name(written, "command line"), overlaid(log.model, http.model))
    model = with_files(process.system, model, written, places_of(process), [f"/proc/{process.pid}/root", ""])
    return (Subject(runtime=runtime, model=model, run=http.run),)


def _answered(system: System, url: Fact[str], api_key: str) -> Subject:
    why: Unknown
    try:
        subject = asked(Server(system, url.value, api_key)) if isinstance(url, Known) else None
        why = url if isinstance(url, Unknown) else not_found(f"something else answers at {url.value}")
    except LookError as error:
        subject, why = None, unknown(error)
    facts: dict[str, Any] = dict.fromkeys(("state", "busy_slots", "running_requests", "kv_usage"), why)
    return subject or Subject(runtime=Runtime(**facts))

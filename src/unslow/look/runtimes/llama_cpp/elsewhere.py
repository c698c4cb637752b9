"""Servers that were not found among the processes: known by a URL, or started by this program."""

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Unknown, reported
from unslow.look.llama_server.log_file import read_log
from unslow.look.llama_server.server import read_server, with_file
from unslow.look.llama_server.settle import settled
from unslow.look.system import LookError, System


def read_url(system: System, url: str, api_key: str | None, log_path: str | None) -> Subject:
    """The server at a URL, with its log where the user names it; LookError where no llama-server answers."""
    subject = read_server(system, url, api_key or "")
    if isinstance(subject.runtime.state, Unknown) and isinstance(subject.runtime.version, Unknown):
        raise LookError(f"no llama-server at {url}: {subject.runtime.state.why}", subject.runtime.state.absence)
    return with_log(system, subject, log_path) if log_path else subject


def read_embedded(system: System, url: str, pid: int, version: str, log_path: str, model_path: str) -> Subject:
    """The engine that this program started."""
    subject = with_log(system, read_server(system, url), log_path)
    runtime = msgspec.structs.replace(
        subject.runtime,
        name=reported("embedded llama.cpp", "started by unslow"),
        version=reported(version, "installed package"),
        pid=reported(pid, "started by unslow"),
        embedded=True,
    )
    model = overlaid(subject.model, Model(path=reported(model_path, "written by unslow")))
    return with_file(system, Subject(runtime=runtime, model=model), ("",))


def with_log(system: System, subject: Subject, path: str) -> Subject:
    """The subject with what a log says, which decides what the server was like when it wrote it."""
    log = read_log(system, path)
    merged = settled(Runtime(), subject, Subject(runtime=log.runtime, model=log.model))
    runtime = msgspec.structs.replace(merged.runtime, log_path=reported(path, "given"))
    return msgspec.structs.replace(merged, runtime=runtime)

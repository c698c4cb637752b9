"""The embedded engine on a made-up model: something real to measure where nothing runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from unslow.app.progress import Progress
from unslow.facts.snapshot import Subject
from unslow.facts.values import Amount, Count, measured
from unslow.look.engine.cache import default_cache
from unslow.look.engine.server import engine_version, start_engine
from unslow.look.runtimes.llama_cpp import read_embedded
from unslow.look.system import Live, LookError, System

DEFAULT_SHAPE = "llama_1b"
QUESTION = "embedded engine"


class Started(msgspec.Struct, frozen=True):
    """Where the engine answers, and how long that took."""

    url: str
    pid: Count
    version: str
    log_path: str
    model_path: str
    load_s: Amount


@contextmanager
def embedded_subject(system: System, shape: str | None, progress: Progress) -> Iterator[Subject]:
    """The engine with a made-up model, for as long as it is needed; as it was, where this is a recording."""
    name = shape or DEFAULT_SHAPE
    progress.say(f"no runtime is running: measuring the embedded engine on a made-up model ({name}, random weights)")
    try:
        live = system.live()
    except LookError:
        yield _read(system, msgspec.convert(system.ask(QUESTION, dict), Started))
        return
    with _running(live, name, progress) as started:
        yield _read(system, msgspec.convert(system.ask(QUESTION, lambda: msgspec.to_builtins(started)), Started))


@contextmanager
def _running(live: Live, name: str, progress: Progress) -> Iterator[Started]:
    version = engine_version()
    path = default_cache().model(
        name, progress=lambda done, total: progress.step("writing the made-up model", done / total)
    )
    start = live.clock()
    progress.step("starting the embedded engine", 0.0)
    with start_engine(live, str(path)) as engine:
        yield Started(engine.url, engine.pid, version, engine.log_path, str(path), live.clock() - start)


def _read(system: System, started: Started) -> Subject:
    subject = read_embedded(system, started.url, started.pid, started.version, started.log_path, started.model_path)
    load_s = measured(started.load_s, "until the embedded engine answered")
    return msgspec.structs.replace(subject, run=msgspec.structs.replace(subject.run, load_s=load_s))

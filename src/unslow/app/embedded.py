"""The embedded engine on a made-up model: something real to measure where nothing runs."""

import msgspec

from unslow.app.measure import Manners, measured_subject
from unslow.app.progress import Progress
from unslow.facts.snapshot import Subject
from unslow.facts.values import measured
from unslow.look.engine.cache import default_cache
from unslow.look.engine.server import engine_version, start_engine
from unslow.look.runtimes.llama_cpp import read_embedded
from unslow.look.system import System

DEFAULT_SHAPE = "llama_1b"


def embedded_subject(system: System, shape: str | None, manners: Manners, progress: Progress) -> Subject:
    """Start the engine, measure it, stop it."""
    name = shape or DEFAULT_SHAPE
    version = engine_version()
    progress.say(f"no runtime is running: measuring the embedded engine on a made-up model ({name}, random weights)")
    path = default_cache().model(
        name, progress=lambda done, total: progress.step("writing the made-up model", done / total)
    )
    start = system.clock()
    progress.step("starting the embedded engine", 0.0)
    with start_engine(system, str(path)) as engine:
        load_s = system.clock() - start
        subject = read_embedded(system, engine.url, engine.pid, version, engine.log_path, str(path))
        run = msgspec.structs.replace(subject.run, load_s=measured(load_s, "until the embedded engine answered"))
        return measured_subject(system, msgspec.structs.replace(subject, run=run), manners, progress)

"""Diagnose, triage, collect: from what runs, from a text, or from what was seen before."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unslow.app.progress import Progress, Silent
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot
from unslow.think.report import Report

if TYPE_CHECKING:
    from unslow.app.request import Request


def diagnose(  # noqa: PLR0913 (as many as the command has flags)
    target: str | int | Path | Snapshot | None = None,
    *,
    passive: bool = False,
    quick: bool = False,
    thorough: bool = False,
    seconds: float | None = None,
    goal: float | None = None,
    context: int | None = None,
    api_key: str | None = None,
    log: str | None = None,
    evict: bool = False,
    model: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Why inference is slow here, proved, and what this hardware should give.

    Without `passive` a few prompts are sent to the server that is found; one that is busy is only observed. With
    nothing running, the embedded engine is measured on a made-up model. Ctrl-C ends the measuring and gives the report
    so far; a second one is a KeyboardInterrupt.

    target: a URL, a process id, a snapshot, its file or a recording folder; None for whatever runs on this machine
    passive: send no prompt to any runtime and start none; only read
    quick: be done in about 10 seconds; the default is 60 at most
    thorough: take up to 300 seconds, and try more
    seconds: be done in so many seconds at most
    goal: the speed that is wanted, in tokens per second
    context: the context length that is needed, in tokens
    api_key: for a server that asks for one; None for that of the variable UNSLOW_API_KEY
    log: the server's log file, where it can't be found
    evict: measure even if a chat must then read its prompt again
    model: the shape of the made-up model for the embedded engine, such as llama_1b
    progress: is told what is being done; None for silence
    """
    from unslow.app.diagnose import diagnose_target  # noqa: PLC0415 (imported when used)

    request = asked(
        None if isinstance(target, Snapshot) else target, passive=passive, quick=quick, thorough=thorough,
        seconds=seconds, goal=goal, context=context, api_key=api_key, log=log, evict=evict, model=model,
    )  # fmt: skip
    return _judged(target, request) if isinstance(target, Snapshot) else diagnose_target(request, progress or Silent())


def asked(target: str | int | Path | None, **flags: Any) -> "Request":
    """The request of a diagnosis; UserError where two of its times exclude each other."""
    from unslow.app.request import Request  # noqa: PLC0415 (imported when used)

    times = {"quick": flags["quick"], "thorough": flags["thorough"], "seconds": flags["seconds"] is not None}
    given = [name for name, is_given in times.items() if is_given]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} together make no sense", "give one of them")
    named = None if target is None else str(target)
    return Request.from_flags({**flags, "target": named, "save": None, "record": None})


def _judged(snapshot: Snapshot, request: "Request") -> Report:
    """The report on what was seen before, with the wishes of now."""
    import msgspec  # noqa: PLC0415

    from unslow.app.spell import spelled  # noqa: PLC0415
    from unslow.think.judge import diagnose as judge  # noqa: PLC0415

    if request.goal is not None or request.context is not None:
        snapshot = msgspec.structs.replace(snapshot, wish=request.wish)
    return spelled(judge(snapshot), snapshot)


def triage(text: str | bytes | Path, *, progress: Progress | None = None) -> Report:
    """What a text tells: a log, a bug report, a command line, `nvidia-smi`, `ollama ps`, in any mixture.

    text: the text itself, or the path of a file of any size
    progress: is told how far the reading is; None for silence
    """
    from unslow.app.text_source import read_text_source  # noqa: PLC0415 (imported when used)
    from unslow.app.triage import triage as judge  # noqa: PLC0415

    if isinstance(text, Path):
        with read_text_source(str(text)) as source:
            return judge(source.chunks, source.name, source.follow(progress or Silent())).report
    chunks: Iterable[bytes] = [text.encode("utf-8", "replace") if isinstance(text, str) else text]
    return judge(chunks, "paste").report


def collect(target: str | Path | None = None, *, bandwidth: bool = True, progress: Progress | None = None) -> Snapshot:
    """Everything that can be seen of this machine and its runtimes without sending a prompt; keys are not in it.

    target: a snapshot file or a recording folder to read instead; None for this machine
    bandwidth: measure how fast the memory is read, which takes half a second
    progress: is told what is being done; None for silence
    """
    from unslow.app.collect import collect as look  # noqa: PLC0415 (imported when used)
    from unslow.app.read_target import read_stored  # noqa: PLC0415
    from unslow.facts.masking import keyless  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    if target is not None:
        return keyless(read_stored(str(target)))
    (progress or Silent()).step("looking at the machine and at what runs on it", 0.0)
    return keyless(look(LiveSystem(), bandwidth=bandwidth))


def save(snapshot: Snapshot, path: str | Path) -> None:
    """Write what was seen, with user names, home folders, keys and serial numbers masked; `diagnose(path)` reads it.

    snapshot: what `collect` gave
    path: the file, which is written whole or not at all
    """
    from unslow.app.save import save as write  # noqa: PLC0415 (imported when used)

    write(snapshot, str(path), Silent())

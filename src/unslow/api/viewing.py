"""Every number that the page draws."""

from pathlib import Path

from unslow.api.diagnosing import asked
from unslow.app.progress import Progress, Silent
from unslow.think.view.report import View


def view(  # noqa: PLR0913 (as many as a diagnosis has wishes)
    target: str | int | Path | None = None,
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
    ready: bool = False,
    masked: bool = False,
    progress: Progress | None = None,
) -> View:
    """A diagnosis with every number that the page draws: memory, roofline, timeline, curves, before and after.

    It sends what `diagnose` sends. A panel that can't be drawn is None, and `missing` says why.

    target: a URL, a process id, a snapshot file or a recording folder; None for whatever runs on this machine
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
    ready: also work out what each slider of the memory would say, which takes longer
    masked: without user names, home folders, hosts and serial numbers, for somebody else to see
    progress: is told what is being done; None for silence
    """
    from unslow.app.view import masked_view, view_target  # noqa: PLC0415 (imported when used)

    request = asked(
        target, passive=passive, quick=quick, thorough=thorough, seconds=seconds, goal=goal, context=context,
        api_key=api_key, log=log, evict=evict, model=model,
    )  # fmt: skip
    seen = view_target(request, progress or Silent(), ready=ready)
    return masked_view(seen.view, seen.looked) if masked else seen.view

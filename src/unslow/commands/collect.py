"""Write what can be seen of this machine and its runtimes to a snapshot file.

Runtimes only get read-only requests. User names, keys, serial numbers and prompts are masked.

examples:
  unslow collect -o seen.json
  unslow collect -o seen.json --record seen/      also the raw responses, to replay anywhere
  unslow collect seen/ -o again.json              the same snapshot, from the recording
"""

from pathlib import Path
from typing import Annotated

from unslow.commands._output import Progress, Silent
from unslow.commands._request import PATH, Option, Request, function_of
from unslow.facts.snapshot import Snapshot


class CollectRequest(Request, frozen=True, kw_only=True):
    """All visible facts about this machine and its runtimes, without sending a prompt and without keys."""

    target: Annotated[
        str | None,
        Option("recording folder to read instead of this machine", metavar="target", kind=PATH, positional=True),
    ] = None
    output: Annotated[
        str,
        Option("where to write the snapshot; - for standard output", "-o", metavar="FILE", only="cli", required=True),
    ] = ""
    record: Annotated[str | None, Option("also record the raw data in this folder", metavar="DIR", only="cli")] = None
    bandwidth: Annotated[bool, Option("measure memory bandwidth (half a second)")] = True
    quiet: Annotated[bool, Option("do not print progress", "-q", only="cli")] = False


def answer(request: CollectRequest, progress: Progress) -> Snapshot:
    """What can be seen."""
    from unslow.commands.diagnose.target import collect as look
    from unslow.commands.diagnose.target import read_stored
    from unslow.facts.masking import keyless
    from unslow.look.system.live import LiveSystem

    if request.target is not None:
        return keyless(read_stored(request.target))
    progress.step("inspecting the machine and running servers", 0.0)
    return keyless(look(LiveSystem(), bandwidth=request.bandwidth))


def run(request: CollectRequest) -> int:
    """Collect and write."""
    from unslow.commands._output import ProgressBar
    from unslow.commands.diagnose.target import write_snapshot

    with ProgressBar(quiet=request.quiet) as progress:
        write_snapshot(request.output, request.target, request.record, bandwidth=request.bandwidth, progress=progress)
    return 0


def save(snapshot: Snapshot, path: str | Path) -> None:
    """Write what was seen, with user names, home folders, keys and serial numbers masked; `diagnose(path)` reads it.

    snapshot: what `collect` gave
    path: the file, which is written whole or not at all
    """
    from unslow.commands.diagnose.target import save as write

    write(snapshot, str(path), Silent())


collect = function_of(CollectRequest, answer)

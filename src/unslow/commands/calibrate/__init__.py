"""Measure what this machine really gives, in under a minute; later predictions use it.

Without TARGET the embedded engine runs made-up models of several sizes and types, and the cost of each part of a token
is learned from them. With the URL or process id of a running llama-server only the model that it has loaded is
measured: one factor, the way to calibrate a GPU. A busy server is not touched.

examples:
  unslow calibrate
  unslow calibrate --threads 8
  unslow calibrate http://127.0.0.1:8080
  unslow calibrate --list
  unslow calibrate --forget

exit status: 0 measured, listed or forgotten, 2 could not run
"""

from typing import Annotated

from unslow.commands._request import Option, Told
from unslow.facts.errors import UserError


class CalibrateRequest(Told, frozen=True, kw_only=True):
    """What this machine really gives: of a running server, or of the embedded engine."""

    target: Annotated[
        str | None, Option("URL or process id of a running llama-server", metavar="TARGET", positional=True)
    ] = None
    list: Annotated[bool, Option("show what is kept, and what has gone stale")] = False
    forget: Annotated[str | None, Option("remove what is kept, all or what WORD names", metavar="WORD", bare="")] = None
    threads: Annotated[
        int | None,
        Option("threads of the embedded engine (default: the physical cores)", metavar="N", least=1, most=1024),
    ] = None
    anyway: Annotated[bool, Option("although others are busy or a server is slow; it is noted")] = False
    evict: Annotated[bool, Option("measure even if a chat must then read its prompt again")] = False
    api_key: Annotated[str | None, Option("for a server that asks for one (or UNSLOW_API_KEY)", metavar="KEY")] = None

    def check(self) -> None:
        """UserError where two of measuring, listing and forgetting are asked for at once."""
        asked = {"TARGET": self.target is not None, "--list": self.list, "--forget": self.forget is not None}
        if sum(asked.values()) > 1:
            given = " and ".join(name for name, is_given in asked.items() if is_given)
            raise UserError(f"{given} together make no sense", "give one of them")
        if self.threads and self.target:
            raise UserError("a running server has its threads already", "leave out --threads")
        if self.target is not None and not ("://" in self.target or self.target.isdecimal()):
            raise UserError(f"{self.target!r} is no running server", "give a URL or a process id, or nothing")


def run(request: CalibrateRequest) -> int:
    """Measure, list or forget, and show."""
    from unslow.commands._output import ProgressBar, color, width, write
    from unslow.commands.calibrate.calibration import calibrate, forget_calibrations, list_calibrations
    from unslow.look.system.live import LiveSystem
    from unslow.show.calibrate import render_calibration, render_forgotten, render_kept

    render_calibration.check_format(request.format)
    if request.forget is not None:
        write(render_forgotten(forget_calibrations(LiveSystem(), request.forget), request.format))
        return 0
    with ProgressBar(quiet=request.quiet) as progress:
        if request.list:
            text = render_kept(list_calibrations(LiveSystem(), progress), request.format, width=width(), color=color())
        else:
            done = calibrate(LiveSystem(), request, progress)
            text = render_calibration(done, request.format, width=width(), color=color())
    write(text)
    return 0

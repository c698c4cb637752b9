"""Measure this machine's real rates in under a minute; later predictions use them.

Without TARGET, the embedded engine runs synthetic models of several sizes and types, and learns the cost of each part
of a token. With the URL or process id of a running llama-server, only its loaded model is measured, which gives one
factor: this is how to calibrate a GPU. A busy server is not touched.

examples:
  unslow calibrate
  unslow calibrate --threads 8
  unslow calibrate http://127.0.0.1:8080
  unslow calibrate --list
  unslow calibrate --forget

exit status: 0 measured, listed or removed, 2 could not run
"""

from typing import Annotated

from unslow.commands._request import LongRequest, Option
from unslow.facts.errors import UserError


class CalibrateRequest(LongRequest, frozen=True, kw_only=True):
    """The measured rates of this machine: of a running server, or of the embedded engine."""

    target: Annotated[
        str | None, Option("URL or process id of a running llama-server", metavar="TARGET", positional=True)
    ] = None
    list: Annotated[bool, Option("list saved calibrations, and which are stale")] = False
    forget: Annotated[
        str | None, Option("remove saved calibrations: all, or those matching WORD", metavar="WORD", bare="")
    ] = None
    threads: Annotated[
        int | None, Option("threads of the embedded engine (default: physical cores)", metavar="N", least=1, most=1024)
    ] = None
    anyway: Annotated[bool, Option("measure even if the machine is busy or the server slow (it is noted)")] = False
    evict: Annotated[bool, Option("measure even if it evicts a conversation's prompt cache")] = False
    api_key: Annotated[str | None, Option("API key for the server (or UNSLOW_API_KEY)", metavar="KEY")] = None

    def check(self) -> None:
        """UserError where two of measuring, listing and forgetting are asked for at once."""
        asked = {"TARGET": self.target is not None, "--list": self.list, "--forget": self.forget is not None}
        if sum(asked.values()) > 1:
            given = " and ".join(name for name, is_given in asked.items() if is_given)
            raise UserError(f"{given} are mutually exclusive", "give only one of them")
        if self.threads and self.target:
            raise UserError("a running server has its own number of threads", "omit --threads")
        if self.target is not None and not ("://" in self.target or self.target.isdecimal()):
            raise UserError(f"{self.target!r} is not a running server", "give a URL or a process id, or nothing")


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

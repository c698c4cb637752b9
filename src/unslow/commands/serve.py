"""Show the diagnosis as a page in the browser, on this machine only; measure and watch it live.

The page is there at once with what can be seen without asking anybody; it measures when you press the button there,
or with --measure. TARGET is a URL, a process id, a snapshot file or a recording folder; without one, this machine.
Only programs on this machine that know the token in the address are answered, and the page can do no more than
measure: it changes nothing. Programs find a JSON API at the same address, described at /api/v1/openapi.json.
Ctrl-C ends it.

examples:
  unslow serve
  unslow serve http://127.0.0.1:8080 --measure
  unslow serve seen.json --no-open
  unslow serve tests/machines/h200_llama_server_healthy_full_gpu --bench bench.json
"""

from typing import Annotated

from unslow.commands._diagnosis_options import Looking
from unslow.commands._request import Option


class ServeRequest(Looking, frozen=True, kw_only=True):
    """The diagnosis as a page in the browser."""

    port: Annotated[int, Option("port on 127.0.0.1 (default: any that is free)", metavar="N", least=0, most=65535)] = 0
    no_open: Annotated[bool, Option("print the address, don't open the browser")] = False
    measure: Annotated[bool, Option("measure at once, as `unslow diagnose` does")] = False
    bench: Annotated[tuple[str, ...], Option("with a benchmark's curves; may be repeated", metavar="FILE")] = ()
    verify: Annotated[
        str | None, Option("with before and after: what `unslow verify --json` wrote", metavar="FILE")
    ] = None
    json: Annotated[bool, Option("print the address and the token as JSON, for programs")] = False


def run(request: ServeRequest) -> int:
    """Serve until Ctrl-C."""
    from unslow.commands._output import write
    from unslow.page.server.serve import served

    served(request, write)
    return 0

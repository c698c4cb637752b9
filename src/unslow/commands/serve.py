"""Show the diagnosis as a live page in the browser, on this machine only.

The page opens at once with what can be seen without sending a prompt; it measures when you press the button, or with
--measure. TARGET is a URL, a process id, a snapshot file or a recording folder; without one, this machine. Only
programs on this machine that know the token in the address get a response, and the page can only measure: it changes
nothing. A JSON API is at the same address, described at /api/v1/openapi.json. Ctrl-C ends it.

examples:
  unslow serve
  unslow serve http://127.0.0.1:8080 --measure
  unslow serve seen.json --no-open
  unslow serve tests/machines/h200_llama_server_healthy_full_gpu --bench bench.json
"""

from typing import Annotated

from unslow.commands._formats import Looking
from unslow.commands._request import Option


class ServeRequest(Looking, frozen=True, kw_only=True):
    """The diagnosis as a page in the browser."""

    port: Annotated[int, Option("port on 127.0.0.1 (default: any free port)", metavar="N", least=0, most=65535)] = 0
    no_open: Annotated[bool, Option("print the URL, do not open the browser")] = False
    measure: Annotated[bool, Option("measure at the start, as `unslow diagnose` does")] = False
    bench: Annotated[tuple[str, ...], Option("include a benchmark's curves; repeatable", metavar="FILE")] = ()
    verify: Annotated[
        str | None, Option("include a before/after comparison written by `unslow verify --json`", metavar="FILE")
    ] = None
    json: Annotated[bool, Option("print the URL and the token as JSON, for programs")] = False


def run(request: ServeRequest) -> int:
    """Serve until Ctrl-C."""
    from unslow.commands._output import write
    from unslow.page.server.serve import serve_page

    serve_page(request, write)
    return 0

"""How a server of SGLang is found, and what makes it one."""

from collections.abc import Mapping, Sequence

from unslow.facts.values import Fact
from unslow.look.command_line import Setting
from unslow.look.logs.sglang import DIALECT
from unslow.look.processes import Process
from unslow.look.runtimes.sglang.answers import LOG, asked
from unslow.look.serving.address import url_of
from unslow.look.serving.engine import Engine
from unslow.look.serving.processes import find_servers
from unslow.look.serving.sglang_flags import FLAGS, PROGRAM, told

_NAMES = ("sglang", "python", "pt_main_thread")
_PORT = "30000"


def find(processes: Sequence[Process]) -> list[Process]:
    """Every server; its scheduler and its other children belong to it."""
    return find_servers(processes, _NAMES, is_server)


def is_server(words: Sequence[str]) -> bool:
    """Whether a command line starts a server."""
    head = list(words[:6])
    programs = [at for at, word in enumerate(head) if word.rpartition("/")[2] == "sglang"]
    return "sglang.launch_server" in head or any(head[at + 1 : at + 2] == ["serve"] for at in programs)


def _url_of(settings: Mapping[str, Setting]) -> Fact[str]:
    return url_of(settings, _PORT)


ENGINE = Engine(PROGRAM, FLAGS, told, DIALECT, LOG, _url_of, asked, marked_variables=True)

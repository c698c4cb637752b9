"""Takes out of a view what could name a person: for a file that leaves the machine.

The report is made again from the masked snapshot, as a command line can only be masked while its words are apart; then
every text of the view is masked once more, whatever it was made from.
"""

import getpass
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from unslow.app.diagnose import noted
from unslow.app.looking import Looked
from unslow.app.spell import spelled
from unslow.facts.masking import masked, masked_text
from unslow.look.system.http import is_loopback
from unslow.think.judge import diagnose
from unslow.think.report import Report
from unslow.think.view.report import View

_PROMPT = re.compile(r"(?P<flag>(?<!\S)(?:--prompt|--system-prompt|-sys)(?:\s+|=))(?:\"[^\"]*\"|'[^']*'|[^\s\"']+)")
"""In a command line that is one text."""
_LISTENS = re.compile(r"(?P<keep>(?<!\S)--host(?:\s+|=)[\"']?)(?P<host>[\w.-]{1,253})")
HOST = "masked-host"
_NOBODY = ("root", "user")
Rule = tuple[re.Pattern[str], str]


def masked_view(view: View, looked: Looked | None = None) -> View:
    """The view, fit to be shown to a stranger; with what was seen, its report is made anew from that, masked."""
    if view.masked:
        return view
    report = _masked_report(looked) if looked else view.report
    rules = [*_hosts(view.report), *_own_names()]
    raw = _cleaned(msgspec.to_builtins(msgspec.structs.replace(view, report=report, masked=True)), rules)
    return msgspec.convert(raw, View)


def _masked_report(looked: Looked) -> Report:
    snapshot = masked(looked.snapshot)
    return noted(spelled(diagnose(snapshot), snapshot), looked)


def _hosts(report: Report) -> Iterator[Rule]:
    """The names of other machines on which subjects run: they may name a person, a house or a company."""
    names = {host_of(subject.url) for subject in report.subjects}
    yield from (_host(name) for name in sorted(names) if name and not is_loopback(name))


def _own_names() -> Iterator[Rule]:
    """The user's name where it is part of a path, such as /data/NAME/models, and this machine's where it is no word."""
    users = {_user(), Path("~").expanduser().name} - {"", "~", *_NOBODY}
    for name in sorted(users):
        yield re.compile(rf"(?<=[/\\]){re.escape(name)}(?![\w-]|\.\w)"), "user"
    host = socket.gethostname()
    yield from (_host(name) for name in (host, host.partition(".")[0]) if re.search(r"\w[\d.-]", name))


def _host(name: str) -> Rule:
    return re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", re.IGNORECASE), HOST


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        return ""


def host_of(url: str) -> str:
    """The host of a URL; nothing where it is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _cleaned(value: Any, rules: Sequence[Rule]) -> Any:
    match value:
        case str():
            return _text(value, rules)
        case list() | tuple():
            return [_cleaned(one, rules) for one in value]
        case dict():
            return {key: _cleaned(one, rules) for key, one in value.items()}
        case _:
            return value


def _text(text: str, rules: Sequence[Rule]) -> str:
    text = _LISTENS.sub(_listens, _PROMPT.sub(r"\g<flag>masked", masked_text(text)))
    for pattern, instead in rules:
        text = pattern.sub(instead, text)
    return text


def _listens(found: re.Match[str]) -> str:
    """Where a server listens: numbers name nobody, a name may."""
    is_name = re.search(r"[A-Za-z]", found["host"]) and not is_loopback(found["host"])
    return found["keep"] + (HOST if is_name else found["host"])

"""Takes out of a view what could name a person: for a file that leaves the machine.

The report is made again from the masked snapshot, as a command line can only be masked while its words are apart; then
every text of the view is masked once more, whatever it was made from.
"""

import re
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
HOST = "masked-host"


def masked_view(view: View, looked: Looked | None = None) -> View:
    """The view, fit to be shown to a stranger; with what was seen, its report is made anew from that, masked."""
    if view.masked:
        return view
    report = _masked_report(looked) if looked else view.report
    hosts = _hosts(view.report)
    raw = _cleaned(msgspec.to_builtins(msgspec.structs.replace(view, report=report, masked=True)), hosts)
    return msgspec.convert(raw, View)


def _masked_report(looked: Looked) -> Report:
    snapshot = masked(looked.snapshot)
    return noted(spelled(diagnose(snapshot), snapshot), looked)


def _hosts(report: Report) -> re.Pattern[str] | None:
    """The names of other machines on which subjects run: they may name a person, a house or a company."""
    names = {host_of(subject.url) for subject in report.subjects}
    strange = [re.escape(name) for name in sorted(names) if name and not is_loopback(name)]
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(strange)})(?![\w-]|\.\w)", re.IGNORECASE) if strange else None


def host_of(url: str) -> str:
    """The host of a URL; nothing where it is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _cleaned(value: Any, hosts: re.Pattern[str] | None) -> Any:
    match value:
        case str():
            return _text(value, hosts)
        case list() | tuple():
            return [_cleaned(one, hosts) for one in value]
        case dict():
            return {key: _cleaned(one, hosts) for key, one in value.items()}
        case _:
            return value


def _text(text: str, hosts: re.Pattern[str] | None) -> str:
    text = _PROMPT.sub(r"\g<flag>masked", masked_text(text))
    return hosts.sub(HOST, text) if hosts else text

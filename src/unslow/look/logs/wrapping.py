"""What other programs put around a line of a log: journals, containers, shells, quotes."""

import re

import msgspec

_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_WRAPPINGS = tuple(
    re.compile(pattern)
    for pattern in (
        # journalctl, and syslog: `Nov 15 11:36:55 host ollama[812]: `
        rf"(?:(?:{_MONTHS}) [ \d]\d \d\d:\d\d:\d\d|{_STAMP}) \S{{1,64}} [\w./@-]{{1,64}}(?:\[\d{{1,9}}\])?: ",
        # kubectl and containerd: `2026-08-22T10:00:00.1Z stderr F `
        rf"{_STAMP} std(?:out|err) [FP] ",
        # docker compose: `ollama-1  | `; more bars make it a table
        r"[\w.-]{1,64}\s{1,40}\| (?=[^\s|])(?![^|]{0,400}\|)",
        # mails and issue threads
        r"(?:> ?){1,4}(?=\S)",
        # docker logs -t
        rf"{_STAMP} (?=\S)",
    )
)
_JSON_START = '{"log":"'
_OPENS = frozenset(">{JFMASOND0123456789")
_MOST_LAYERS = 3


class _DockerLine(msgspec.Struct):
    """A line of docker's own log files."""

    log: str


def unwrapped(line: str) -> str:
    """The line as its program wrote it, without the time and name that others put before it, as far as known."""
    line = decoded(line)
    for _ in range(_MOST_LAYERS):
        shorter = _without_one(line)
        if shorter == line:
            break
        line = shorter
    return line


def decoded(line: str) -> str:
    """The line out of docker's own log files, which keep each as JSON; any other as it is."""
    if not line.startswith(_JSON_START):
        return line
    try:
        return msgspec.json.decode(line, type=_DockerLine).log.rstrip()
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line


def _without_one(line: str) -> str:
    if not line or (line[0] not in _OPENS and " | " not in line):
        return line
    for wrapping in _WRAPPINGS:
        if found := wrapping.match(line):
            return line[found.end() :]
    return line

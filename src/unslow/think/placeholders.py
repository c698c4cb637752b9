"""Commands to copy with what is known of a case in them: a placeholder stays only where nobody knows better."""

import re
from functools import cache
from itertools import pairwise

from unslow.facts.shell_words import joined, quoted
from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known, Origin
from unslow.think.adapt.remembered import once
from unslow.think.adapt.surroundings import system_of

_NAME = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,120}")
_URL = re.compile(r"https?://[\w.:\[\]-]{1,120}(?:/[\w./-]{0,80})?")
_LOCAL = re.compile(r"http://127\.0\.0\.1:(?:\d+|PORT)\b")
_AGAIN = re.compile(r"(?<![\w.-])[\w.-]+(?: serve)? ARGUMENTS_AS_BEFORE")
_NOT_THE_SERVER = re.compile(r"bench|ghcr\.io")
_FILE_FLAGS = ("-m", "--model")


def filled(line: str, case: Case) -> str:
    """The line with the model, its file, the command and the address of the case in place of words for them."""
    again, url = _command(case), case.runtime.url.value_or("").rstrip("/")
    line = _AGAIN.sub(lambda _: again, line) if again else line
    for placeholder, value in _known(case):
        line = _whole(placeholder).sub(value.replace("\\", r"\\"), line)
    return _LOCAL.sub(lambda _: url, line) if _URL.fullmatch(url) else line


@cache
def _whole(placeholder: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(placeholder)}(?![\w.])")


@once
def _known(case: Case) -> tuple[tuple[str, str], ...]:
    name, file = _printed_name(case.model.name), _file(case)
    files = (("MODEL.gguf", quoted(file, system_of(case))),) if file else ()
    names = (("MODEL", name), ("NAME:TAG", f"{name.partition(':')[0]}:TAG")) if name else ()
    return *files, *names


@once
def _command(case: Case) -> str:
    """The command that it was started with; empty where that is not known, or starts something else."""
    command = case.runtime.command.value_or([])
    named = len(command) > 1 and not _NOT_THE_SERVER.search(command[0])
    return joined(command, system_of(case)) if named else ""


def _printed_name(name: Fact[str]) -> str:
    """The model as the runtime calls it; what a person calls it may be nobody else's word."""
    known = isinstance(name, Known) and name.origin is not Origin.TOLD and _NAME.fullmatch(name.value)
    return name.value if known and isinstance(name, Known) else ""


def _file(case: Case) -> str:
    command = case.runtime.command.value_or([])
    given = [value for flag, value in pairwise(command) if flag in _FILE_FLAGS]
    path = given[-1] if given else str(case.model.path.value_or(""))
    return path if path.endswith(".gguf") else ""

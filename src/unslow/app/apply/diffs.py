"""A change as it is shown: a unified diff without keys."""

import difflib
import re
from collections.abc import Iterator, Sequence

from unslow.act.files import Edit
from unslow.look.keys import SHOWN, hushed
from unslow.look.llama_server.arguments import spelled_flags
from unslow.look.llama_server.flags import FLAGS, SECRET
from unslow.think.change.report import FileShown

_NAME = r"(?![A-Z0-9_]{0,99}_FILE\s*[=:])[A-Z0-9_]{0,99}(?:KEY|TOKEN|SECRET|PASSW)[A-Z0-9_]{0,99}"
"""Of a variable that holds a key, and not the name of a file with one."""
_FLAGS = "|".join(re.escape(word).replace(r"\-", "[-_]") for name in SECRET for word in FLAGS[name].spellings)
"""llama.cpp takes underscores for dashes."""
_BARE = r"(?:\\[^\n]|[^\s\"'\\,\]]|,(?=[^\s\"'\]]))"
_WORD = rf"(\"(?:[^\"\\\n]|\\.)*\"?{_BARE}*|'[^'\n]*'?{_BARE}*|{_BARE}+)"
"""A word as a shell or a list has it: quoted, or up to a blank."""
_QUOTED = re.compile(rf"(?i)(?<=([\"']))((?:{_FLAGS}|\b{_NAME})=)([^\n]*?)(?=\1)")
_ASSIGNED = re.compile(rf"(?i)(\b{_NAME}\s*[=:]\s*){_WORD}")
_FLAGGED = re.compile(rf"(?<![\w-])((?:{_FLAGS})(?![\w-])\\?[\"']?(?:=|[\s,\\+-]+)){_WORD}")
"""A flag and its key, also where each stands on a line of its own."""
_NO_END = "\\ No newline at end of file\n"


def shown_edit(edit: Edit, command: Sequence[str] = ()) -> FileShown:
    """A file and what changes in it."""
    return FileShown(
        path=edit.path,
        is_new=edit.before is None,
        diff=shown_diff(edit.before, edit.after, edit.path, keys_of(command)),
    )


def keys_of(command: Sequence[str]) -> list[str]:
    """What nobody shall see of a command line."""
    return [key for flag in spelled_flags(command) if flag.name in SECRET for key in flag.value.split(",")]


def shown_diff(before: bytes | None, after: bytes | None, path: str, keys: Sequence[str] = ()) -> str:
    """The lines that differ, with three around them."""
    old, new = (_lines(data) for data in (before, after))
    names = ("/dev/null" if before is None else path, "/dev/null" if after is None else path)
    text = "".join(difflib.unified_diff(old, new, *names))
    found = [key for lines in (old, new) for key in _written_keys("".join(lines))]
    text = _QUOTED.sub(rf"\g<2>{SHOWN}", text)
    for secret in (_ASSIGNED, _FLAGGED):
        text = secret.sub(rf"\g<1>{SHOWN}", text)
    return hushed(text, *keys, *found).rstrip("\n")


def _written_keys(text: str) -> Iterator[str]:
    """The keys after flags of a whole text: of a diff, the flag itself may be left out."""
    for match in _FLAGGED.finditer(text):
        word = match[2].strip("\"'\\")
        if not word.startswith("$"):
            yield from (word, *word.split(","))


def _lines(data: bytes | None) -> list[str]:
    lines = (data or b"").decode("utf-8", "replace").splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1:] = [f"{lines[-1]}\n{_NO_END}"]
    return lines

"""Models in several files, `name-00001-of-00003.gguf` and so on."""

import re
from urllib.parse import urlsplit, urlunsplit

from unslow.look.models.gguf.header import Header
from unslow.look.system import LookError

MOST_PARTS = 512

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


def part_paths(path: str) -> list[str]:
    """The files of a model, from the path of any of them."""
    match = _PART.fullmatch(path)
    if not match:
        return [path]
    stem, count = match[1], int(match[3])
    if not 0 < int(match[2]) <= count <= MOST_PARTS:
        raise LookError(f"{path}: part {int(match[2])} of {count} can't be")
    return [f"{stem}-{n:05}-of-{count:05}.gguf" for n in range(1, count + 1)]


def part_urls(url: str) -> list[str]:
    """The addresses of a model's files, from that of any of them."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise LookError(f"{url!r} is not a URL: {error}") from error
    return [urlunsplit(parts._replace(path=path)) for path in part_paths(parts.path)]


def is_part(path: str) -> bool:
    """Whether the name is that of one file of several."""
    return _PART.fullmatch(path) is not None


def check_part(header: Header, number: int, count: int) -> None:
    """LookError where the header tells of another part, or of another number of parts, than the name does."""
    of, says = header.metadata.get("split.count"), header.metadata.get("split.no")
    if isinstance(of, int) and of > 1 and of != count:
        told = (
            f"its name tells of {count}" if count > 1 else "its name does not tell which, so the others can't be found"
        )
        raise LookError(f"is one of {of} parts, but {told}")
    if count > 1 and isinstance(says, int) and says != number:
        raise LookError(f"is named as part {number + 1}, but says that it is part {says + 1}")

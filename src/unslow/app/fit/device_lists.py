"""A list of devices as people write it: `RTX 3090 x2 + 24GB`."""

import re

from unslow.facts.errors import UserError

_BETWEEN = re.compile(r"(?<!\s)\s*(?:,|&|(?<!max)\+|\band\b)\s*", re.IGNORECASE)  # a Ryzen AI Max+ has one of its own
_BEFORE = re.compile(r"(\d{1,9})\s*[x×*](?!tx?\b)\s*(\S.*)", re.IGNORECASE)  # an RX 7900 XTX is no count of 7900
_AFTER = re.compile(r"(.+?)(?:(?<!\s)\s+[x×*]\s*|(?<=[\db)])[x×*])(\d{1,9})", re.IGNORECASE)
_LAST = re.compile(r"(.+?)(?<!\s)\s+(\d{1,3})\s*[x×*]", re.IGNORECASE)
_BARE = re.compile(r"(\d{1,2})\s+(?![gmt](?:i?b)?\b)(\S.*)", re.IGNORECASE)
SIZE_ALONE = re.compile(r"\d{1,9}(?:\.\d{1,9})?\s*[gmt](?:i?b)?", re.IGNORECASE)
MOST_DEVICES = 64
LONGEST_LIST = 2000


def parse_device_list(texts: tuple[str, ...]) -> list[str]:
    """The name of each device, as often as there are such devices; UserError for counts that can't be."""
    if any(len(text) > LONGEST_LIST for text in texts):
        raise UserError(
            f"a list of devices has more than {LONGEST_LIST} letters", "write it like 2x RTX 3090, RTX 3060"
        )
    names: list[str] = []
    for part in (part for text in texts for part in _BETWEEN.split(text.strip())):
        count, name = _counted(part)
        if not name:
            raise UserError("a device has no name", "separate several with a comma: RTX 3060, RTX 3090")
        if not 1 <= count <= MOST_DEVICES or len(names) + count > MOST_DEVICES:
            raise UserError(f"{count} devices can't be: {part!r}", f"1 to {MOST_DEVICES} in all, as in 2x RTX 3090")
        names += [name] * count
    return names


def _counted(text: str) -> tuple[int, str]:
    """How many, and of what."""
    before, after = _BEFORE.fullmatch(text), _AFTER.fullmatch(text)
    if before and after and before[2].isdigit():  # 2x4090, or 4090x2: nobody has thousands
        return min((int(before[1]), before[2]), (int(after[2]), after[1]))
    if SIZE_ALONE.fullmatch(text):
        return 1, text
    if first := before or _BARE.fullmatch(text):
        return int(first[1]), first[2]
    if last := after or _LAST.fullmatch(text):
        return int(last[2]), last[1]
    return 1, text

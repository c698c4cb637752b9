"""The device that a person means: glued or shortened names, with or without a size of memory."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from unslow.catalog.devices import FORMS, MODELS, Device, all_devices, words_of

_SERIES = frozenset({"rtx", "gtx", "rx", "arc", "apple", "dgx", "jetson"})
"""Words that may be left out: the number alone says which device it is."""
_LARGE_SERIES = frozenset({"rtx", "gtx", "rx"})
_NOISE = frozenset({"card", "desktop", "vram", "ram", "memory", "unified", "with", "chip"})
_SAME = {"mobile": "laptop"}
_SIZE = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,9})?\s*[gm](?:i?b)?\b")
_MACS = re.compile(r"\b(?:macbook (?:pro|air)|mac (?:studio|mini|pro)|imac)\b")
_NOT_THE_NAME = re.compile(r"\b(?:\d+ ?cores?|(?:lp)?g?ddr\d\w*|hbm\d?\w*)\b")
_GLUED = (
    (re.compile(r"\b(nvidia|amd|geforce|radeon|quadro|tesla|apple)(?=[a-z]*\d)"), r"\1 "),
    (re.compile(r"\b(rtx|gtx|rx|arc)(?=[a-z]*\d)"), r"\1 "),
    (re.compile(r"(?<=\d)(ti|super|xtx|xt|gre|d|max|pro|ultra|laptop|mobile)(?=\b|super)"), r" \1 "),
    (re.compile(r"\bmi (?=\d)"), "mi"),
)
_NAMES_SHOWN = 8
_CLOSE = 0.7
_LONGEST = 32  # letters of a word that close ones are looked for
_NEAR_SIZE = 1.07  # 16 GB cards that report 15, and 180 that are sold as 192; 11 and 12 are two devices


class Written(NamedTuple):
    """A name as somebody wrote it: the words that tell devices apart, and the sizes of memory in it."""

    words: frozenset[str]
    sizes: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def parse_device_name(text: str) -> Written:
    """The words and the sizes of a name."""
    text = re.sub(r"[()\[\]\-/,_+]", " ", text.lower())
    sizes = tuple(_SIZE.findall(text))
    for pattern in (_SIZE, _MACS, _NOT_THE_NAME):
        text = pattern.sub(" ", text)
    for pattern, parted in _GLUED:
        text = pattern.sub(parted, text)
    words = words_of(text) - _NOISE
    return Written(frozenset(_SAME.get(word, word) for word in words), sizes)


def devices_meant(words: frozenset[str]) -> list[Device]:
    """The devices that have all these words: the variants of one model where it is clear which one is meant."""
    if not _core(words):
        return []
    having = [(d, known) for d in all_devices() if words <= (known := parse_device_name(d.name).words)]
    fitting = [(d, _core(known)) for d, known in having]
    exact = [(d, core) for d, core in fitting if core == _core(words)]
    choice = exact or fitting
    plainest = [d for d, core in choice if all(core <= other for _, other in choice)]
    return plainest or [d for d, _ in choice]


def is_one_model(devices: Iterable[Device]) -> bool:
    """Whether devices differ in nothing but their memory and their form."""
    return len({_core(parse_device_name(d.name).words) for d in devices}) == 1


def near_devices(words: frozenset[str]) -> list[Device]:
    """Devices of the same number, else of one that begins or looks like it, else of the same kind."""
    known = [(d, parse_device_name(d.name).words) for d in all_devices()]
    numbers = {w for w in words if _is_number(w)}
    all_numbers = _numbers(word for _, ws in known for word in ws)
    longer = {n for n in all_numbers if n.startswith(tuple(numbers))}
    alike = {n for w in numbers for n in get_close_matches(w[:_LONGEST], all_numbers, 3, _CLOSE)}
    for wanted in (numbers, longer, alike, words - MODELS - FORMS - _LARGE_SERIES - numbers):
        if found := [(d, ws) for d, ws in known if ws & wanted]:
            ranked = sorted(found, key=lambda pair: (-len(pair[1] & words), len(pair[1])))
            return [d for d, _ in ranked[:_NAMES_SHOWN]]
    return []


def is_near_size(a: int, b: int) -> bool:
    """Whether two sizes may be the same memory, once as labelled and once as reported."""
    return max(a, b) <= _NEAR_SIZE * min(a, b)


def _core(words: frozenset[str]) -> frozenset[str]:
    """What names the model, apart from its series and form."""
    return words - _SERIES - FORMS


def _is_number(word: str) -> bool:
    return len(word) > 1 and any(letter.isdigit() for letter in word)


def _numbers(words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if _is_number(word)})

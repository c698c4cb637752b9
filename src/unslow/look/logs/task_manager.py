"""What people copy out of Windows' Task Manager: its GPU pages, or a line typed from the screen."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from unslow.facts.machine import Gpu
from unslow.facts.values import Fact, Known, not_supported, reported
from unslow.look.logs.amounts import amount
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_gpus
from unslow.look.logs.gpu_builder import MOST_GPUS, gpu_of
from unslow.look.logs.numbered import Numbered, numbered_lines

SOURCE = "Task Manager"

_FORMS = (
    form(
        r"(?i:(?:Dedicated|Shared)\"? GPU memory|of (?:the )?shared |dedicated[^;]{0,30}\d ?GB\W{1,3}shared)"
        r"|(?<!\S)(?:GPU|NPU) ?\d{1,2}\W*$",
        r"NVIDIA|AMD|Intel|Radeon|GeForce|GPU|GB|%|:\s",
    ),
)
_SIZES = r"[\s:]{0,20}(\d{1,5}(?:[.,]\d{1,2})?)\s*(?:GB|G)?\s*/\s*(\d{1,5}(?:[.,]\d{1,2})?)\s*(GB|G|MB)\b"
_DEDICATED = re.compile(rf"Dedicated GPU memory(?: usage)?{_SIZES}", re.IGNORECASE)
_SHARED = re.compile(rf"Shared GPU memory(?: usage)?{_SIZES}", re.IGNORECASE)
_IN_WORDS = re.compile(
    r"\b(?:us(?:es?|ed|ing)|occup\w{1,6}|fill\w{0,4})\b\D{0,30}(\d{1,4}(?:[.,]\d{1,2})?)\+?\s*(GB|G|MB) of (?:the )?"
    r"shared (?:GPU |video )?(?:memory|VRAM)",
    re.IGNORECASE,
)
_TYPED = re.compile(
    r"(?:\bshared\W{0,2} GPU memory\W{0,3}|\bdedicated[^;\n]{0,30}GB\W{1,3}shared(?: GPU memory)? ?)"
    r"(?:(?:rais|ris|grow|go)\w{1,4} )?(?:from \d[\d.]{0,5}(?: ?GB)? to )?(\d{1,4}(?:[.,]\d{1,2})?) ?(GB)(?!\s*/)",
    re.IGNORECASE,
)
"""The figure of the page in a line of somebody's own."""
_NONE_OF_ITS_OWN = re.compile(r"Dedicated GPU memory\s*$", re.IGNORECASE)
_BEGIN = re.compile(r"(?<!\S)(?:GPU|NPU) ?(\d{1,2})?\s*:?$")
_NAME = re.compile(r"(?<!\S)((NVIDIA|AMD|Intel|Radeon|GeForce)\b[^:|,]{2,80})$")
_DRIVER = re.compile(r"Driver version:\s*(\d[\d.]{2,30})", re.IGNORECASE)
_USE = re.compile(r"Utili[sz]ation[\s:]{1,20}(\d{1,3})\s*%", re.IGNORECASE)
_PLACE = re.compile(r"PCI bus (\d{1,3}), device (\d{1,2}), function (\d)", re.IGNORECASE)
_VENDORS = {"GeForce": "NVIDIA", "Radeon": "AMD"}


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs whose dedicated or shared memory the text tells; none where it tells none."""
    found = [page for page in _pages(numbered_lines(text, source, first_line)) if page.tells()]
    return tuple(page.gpu(number) for number, page in enumerate(found[:MOST_GPUS]))


class _Page:
    """What one page of the Task Manager says."""

    def __init__(self, index: int | None = None) -> None:
        self.index = index
        self.vendor = ""
        self.facts: dict[str, Fact[Any]] = {}

    def tells(self) -> bool:
        """Whether it is about a GPU's memory."""
        return "vram_used_bytes" in self.facts or "shared_used_bytes" in self.facts

    def read(self, line: Numbered) -> None:
        """Take the facts of a line; the first of each kind counts."""
        for name, fact in _facts(line).items():
            self.facts.setdefault(name, fact)
        maker = _NAME.search(line.text)
        if maker and not self.vendor:
            self.vendor = _VENDORS.get(maker[2], maker[2])

    def gpu(self, number: int) -> Gpu:
        """The GPU, by the number that the page has, or by its order."""
        source = next(fact.source for fact in self.facts.values() if isinstance(fact, Known))
        return gpu_of(number if self.index is None else self.index, self.vendor, source, self.facts)


def _pages(lines: Iterable[Numbered]) -> list[_Page]:
    """A page begins with `GPU 0`; a second line of the same memory begins one too, for titles get lost."""
    pages = [_Page()]
    for line in lines:
        begin = _BEGIN.search(line.text)
        again = _DEDICATED.search(line.text) and "vram_used_bytes" in pages[-1].facts
        if begin or again:
            pages.append(_Page(int(begin[1]) if begin and begin[1] else None))
        pages[-1].read(line)
    return pages


def _facts(line: Numbered) -> dict[str, Fact[Any]]:
    facts: dict[str, Fact[Any]] = {}
    for pattern, kind in ((_DEDICATED, "vram"), (_SHARED, "shared")):
        if sizes := pattern.search(line.text):
            facts[f"{kind}_used_bytes"] = amount(f"{sizes[1]} {sizes[3]}", "GB", line.source)
            facts[f"{kind}_total_bytes"] = amount(f"{sizes[2]} {sizes[3]}", "GB", line.source)
    if told := _IN_WORDS.search(line.text) or _TYPED.search(line.text):
        facts.setdefault("shared_used_bytes", amount(f"{told[1]} {told[2]}", "GB", line.source))
    if _NONE_OF_ITS_OWN.search(line.text):
        facts["vram_used_bytes"] = facts["vram_total_bytes"] = not_supported(
            f"{line.source}: it has no memory of its own"
        )
        facts["kind"] = reported("integrated", line.source)
    if name := _NAME.search(line.text):
        facts["name"] = reported(name[1].strip(), line.source)
    if driver := _DRIVER.search(line.text):
        facts["driver"] = reported(driver[1], line.source)
    if use := _USE.search(line.text):
        facts["busy"] = amount(use[1], "%", line.source)
    if place := _PLACE.search(line.text):
        facts["bus_id"] = reported(f"0000:{int(place[1]):02x}:{int(place[2]):02x}.{place[3]}", line.source)
    return facts


def parse_text(text: Text) -> Seen:
    """The GPUs of every page of the Task Manager in a text; people type such lines amid their own words."""
    return msgspec.structs.replace(seen_gpus(text, _FORMS, parse_gpus), spans=())

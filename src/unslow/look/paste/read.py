"""One pass over a text of any size, by all dialects at once."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from unslow.facts.machine import Machine
from unslow.facts.snapshot import Subject
from unslow.look.logs.cleaning import in_utf8
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.registry import COMMAND, line_dialects, text_dialects
from unslow.look.logs.stream import LogStream, blocks
from unslow.look.paste.machines import merged_machine
from unslow.look.paste.prose import outside, without_programs
from unslow.look.paste.subjects import contradicted, merged_subject, merged_subjects


class Pasted(NamedTuple):
    """What a text tells, and what is left of it for whoever reads words."""

    machine: Machine
    subjects: tuple[Subject, ...]
    """Usually one; several where the text clearly tells of several runtimes."""
    prose: Text
    """Lines that no dialect recognised, with their numbers; of a long log, those of its start and its end."""
    recognised: dict[str, int]
    """How many lines each dialect recognised, by its name."""
    bytes: int
    lines: int
    sampled: bool
    """Whether lines that repeat were counted instead of read."""


def read_paste(chunks: Iterable[bytes], source: str, progress: Callable[[int], None] | None = None) -> Pasted:
    """The facts of a text that comes in chunks of any size; `progress` is told the bytes read so far."""
    stream = LogStream(line_dialects(), source)
    for block in blocks(in_utf8(chunks)):
        stream.feed(block)
        if progress:
            progress(stream.bytes)
    seen = {name: reader.seen(source) for name, reader in stream.readers.items()}
    texts = [without_programs(text) for text in stream.unread()]
    tables, taken = _read_tables(texts)
    found = {name: each for name, each in _together(seen, tables).items() if each.lines}
    machine = merged_machine([found[name].machine for name in sorted(found, key=tables.__contains__)])
    return Pasted(
        machine=machine,
        subjects=_subjects(found, machine),
        prose=outside(texts, taken),
        recognised={name: each.lines for name, each in found.items()},
        bytes=stream.bytes,
        lines=stream.lines,
        sampled=stream.sampled,
    )


def _subjects(found: Mapping[str, Seen], machine: Machine) -> tuple[Subject, ...]:
    """What was asked for first, what came of it over it, and where the two can't both be right."""
    asked = [seen.subject for name, seen in found.items() if name.endswith(COMMAND)]
    shown = [seen.subject for name, seen in found.items() if not name.endswith(COMMAND) and name not in line_dialects()]
    logged = [seen.subject for name, seen in found.items() if name in line_dialects()]
    subjects = merged_subjects([*asked, *shown, *logged])
    return tuple(contradicted(subject, [*asked, *logged], machine, len(subjects)) for subject in subjects)


def _read_tables(texts: list[Text]) -> tuple[dict[str, Seen], set[int]]:
    """What the blocks of the texts tell, by dialect, and the numbers of the lines they take up."""
    found: dict[str, Seen] = {}
    taken: set[int] = set()
    for text in texts:
        each = {name: parse(text) for name, parse in text_dialects().items()}
        found = _together(found, {name: seen for name, seen in each.items() if seen.lines})
        taken.update(text.number(i) for seen in each.values() for first, end in seen.spans for i in range(first, end))
    return found, taken


def _together(first: Mapping[str, Seen], second: Mapping[str, Seen]) -> dict[str, Seen]:
    """Both, dialect by dialect; a dialect may read lines as well as blocks."""
    joined = {name: _joined(first[name], second[name]) for name in first.keys() & second.keys()}
    return {**first, **second, **joined}


def _joined(first: Seen, second: Seen) -> Seen:
    return Seen(
        machine=merged_machine([first.machine, second.machine]),
        subject=merged_subject(first.subject, second.subject),
        lines=first.lines + second.lines,
    )

"""Any pasted text: logs, tables, commands and prose in any mixture, as facts."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from unslow.facts.machine import Facts, Gpu, Machine
from unslow.facts.merge import gpus_in_order, overlaid
from unslow.facts.runtime import FACT_PATHS
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, Origin, first_known
from unslow.look import logs
from unslow.look.contradictions import added_contradictions, contradictions
from unslow.look.logs.commands import parse_commands
from unslow.look.logs.dialect import LineDialect, LogFacts, Text, TextDialect
from unslow.look.logs.stream import LogStream, in_utf8, whole_line_blocks
from unslow.look.runtimes import command_lines

MOST_GPUS = 64
_NOISE = re.compile(r"(?i)\b(?:nvidia|geforce|amd|ati|radeon|intel|apple|corporation|graphics|\(r\)|\(tm\)|gpu)\b|[()]")

_INNER = "llama.cpp"
_AROUND_LLAMA_CPP = ("Ollama", "LM Studio", "KoboldCpp", "llama-swap")
_OUTER_FACTS = ("name", "version", "url", "loads")
"""What is said of the inner program by these is not true of the outer one, which alone knows the file of each load."""

_WEIGHT = {Origin.TOLD: 0, Origin.ESTIMATED: 1, Origin.DATASHEET: 1, Origin.REPORTED: 2, Origin.MEASURED: 3}

# How programs begin the lines that no dialect cared for.
_WRITTEN = re.compile(
    r"""(?x)
      \d{1,6}\.\d\d\.\d{3}\.\d{3}\ [IWED]\         # llama.cpp's clock and level
    | (?:slot|srv|cmn|que|spec)\ +\w+:\s              # its server
    | \w{0,60}(?:llama|ggml|gguf|load|print|clip|sched|common)_\w{1,80}:\s   # functions of llama.cpp
    | load:\s+(?:-|special|token|control|printing|\d)
    | time=\S+\ level=                               # Ollama
    | \[GIN\]\ \d
    | (?:\(\w+(?:\ \w+=\d+)?\)\ )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\ \d\d-\d\d\ \d\d:   # vLLM
    | \[\d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d[^\]]*\]\s
    | \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+\[?(?:DEBUG|INFO|WARN|WARNING|ERROR)\b
    | [+|][-=+|]{4,}\s*$                             # borders of tables
    """
)

COMMAND_DIALECT = "command"
"""How the names of dialects end that read command lines: what they tell was asked for, and need not have come true."""


class PastedFacts(NamedTuple):
    """What a text tells, and what is left of it for whoever reads words."""

    machine: Machine
    subjects: tuple[Subject, ...]  # Usually one; several where the text clearly tells of several runtimes
    prose: Text  # Lines that no dialect recognised, with their numbers; of a long log, those of its start and its end
    recognised: dict[str, int]  # How many lines each dialect recognised, by its name
    bytes: int
    lines: int
    sampled: bool  # Whether lines that repeat were counted instead of read


def read_paste(chunks: Iterable[bytes], source: str, progress: Callable[[int], None] | None = None) -> PastedFacts:
    """The facts of a text that comes in chunks of any size; `progress` is told the bytes read so far."""
    stream = LogStream(line_dialects(), source)
    for block in whole_line_blocks(in_utf8(chunks)):
        stream.feed(block)
        if progress:
            progress(stream.bytes)
    seen = {name: reader.log_facts(source) for name, reader in stream.readers.items()}
    texts = [_lines_where([text], lambda _, line: not _WRITTEN.match(line.lstrip())) for text in stream.unread()]
    tables: dict[str, LogFacts] = {}
    taken: set[int] = set()  # the numbers of the lines that blocks take up
    for text in texts:
        each = {name: parse(text) for name, parse in text_dialects().items()}
        tables = _together(tables, {name: block for name, block in each.items() if block.lines})
        taken.update(text.number(i) for block in each.values() for first, end in block.spans for i in range(first, end))
    found = {name: each for name, each in _together(seen, tables).items() if each.lines}
    machine = merged_machine([found[name].machine for name in sorted(found, key=tables.__contains__)])
    return PastedFacts(
        machine=machine,
        subjects=_subjects(found, machine),
        prose=_lines_where(texts, lambda number, _: number not in taken),
        recognised={name: each.lines for name, each in found.items()},
        bytes=stream.bytes,
        lines=stream.lines,
        sampled=stream.sampled,
    )


def _lines_where(texts: Sequence[Text], wanted: Callable[[int, str], bool]) -> Text:
    """Those lines of all texts, with their numbers."""
    pairs = [(n, s) for text in texts for n, s in zip(text.numbers, text.lines, strict=True) if wanted(n, s)]
    source = texts[0].source if texts else ""
    return Text([line for _, line in pairs], source, numbers=[number for number, _ in pairs])


def _together(first: Mapping[str, LogFacts], second: Mapping[str, LogFacts]) -> dict[str, LogFacts]:
    """Both, dialect by dialect; a dialect may read lines as well as blocks."""
    together = {**first, **second}
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        together[name] = LogFacts(
            machine=merged_machine([one.machine, other.machine]),
            subject=merged_subject(one.subject, other.subject),
            lines=one.lines + other.lines,
        )
    return together


def _subjects(found: Mapping[str, LogFacts], machine: Machine) -> tuple[Subject, ...]:
    """What was asked for first, what came of it over it, and where the two cannot both be right."""
    asked = [seen.subject for name, seen in found.items() if name.endswith(COMMAND_DIALECT)]
    others = {name: seen.subject for name, seen in found.items() if not name.endswith(COMMAND_DIALECT)}
    logged = [subject for name, subject in others.items() if name in line_dialects()]
    shown = [subject for name, subject in others.items() if name not in line_dialects()]
    merged = merged_subjects([*asked, *shown, *logged])
    subjects = []
    for subject in merged:
        name = subject.runtime.name.value_or("")
        names = {name, "" if len(merged) == 1 else name, _INNER if name in _AROUND_LLAMA_CPP else name}
        sources = [("", each.runtime) for each in (*asked, *logged) if each.runtime.name.value_or("") in names]
        contradicted = contradictions(sources, subject.model, machine)
        every = added_contradictions(subject.contradictions, contradicted)
        subjects.append(msgspec.structs.replace(subject, contradictions=every))
    return tuple(subjects)


def merged_subjects(subjects: Iterable[Subject]) -> tuple[Subject, ...]:
    """One for each runtime that the text tells of; lines of llama.cpp in another program's log belong to that one."""
    named: dict[str, Subject] = {}
    nameless = Subject()
    for subject in subjects:
        if name := subject.runtime.name.value_or(""):
            named[name] = merged_subject(named[name], subject) if name in named else subject
        else:
            nameless = merged_subject(nameless, subject)
    inner = named.get(_INNER)
    outer = next((name for name in _AROUND_LLAMA_CPP if name in named), "")
    if inner is not None and outer:  # its lines are the exact ones, the name is that of the program around it
        whole = merged_subject(named[outer], inner)
        kept = {name: named[outer].runtime.fact(name) for name in _OUTER_FACTS}
        if not isinstance(kept["loads"], Known):
            del kept["loads"]
        whole = msgspec.structs.replace(whole, runtime=whole.runtime.with_facts(**kept))
        found = [whole, *(subject for name, subject in named.items() if name not in (_INNER, outer))]
    else:
        found = list(named.values())
    if not found:
        return () if nameless == Subject() else (nameless,)
    # what no program claims is said of the only runtime, or of the one that most is known of
    first, *others = sorted(
        found, key=lambda each: sum(isinstance(each.runtime.fact(name), Known) for name in FACT_PATHS), reverse=True
    )
    return (merged_subject(nameless, first), *others)


def merged_subject(base: Subject, over: Subject) -> Subject:
    """`over` on top of `base`, except where it only guesses or was only told what `base` was shown."""
    below, above = base.runtime, over.runtime
    both: dict[str, Fact[Any]] = {
        "warnings": first_known(below.history.warnings, above.history.warnings),
        "environment": first_known(below.process.environment, above.process.environment),
        "loads": first_known(above.history.loads, below.history.loads),
    }
    if len(below.history.loads.value_or(())) > len(above.history.loads.value_or(())):
        both["loads"] = below.history.loads
    first, second = below.history.warnings, above.history.warnings
    if isinstance(first, Known) and isinstance(second, Known):
        both["warnings"] = Known(list(dict.fromkeys(first.value + second.value)), second.origin, first.source)
    one, other = below.process.environment, above.process.environment
    if isinstance(one, Known) and isinstance(other, Known):
        both["environment"] = Known({**one.value, **other.value}, other.origin, f"{one.source}, {other.source}")
    return Subject(
        runtime=surer_facts(below, above).with_facts(**both),
        model=surer_facts(base.model, over.model),
        run=surer_facts(base.run, over.run),
        account=overlaid(base.account, over.account),
        contradictions=base.contradictions + over.contradictions,
    )


def surer_facts(base: Any, over: Any) -> Any:
    """`over` on top, except where `base` knows a fact from a better origin."""
    keep: dict[str, Any] = {}
    for name in over.__struct_fields__:
        old, new = getattr(base, name), getattr(over, name)
        if isinstance(new, Facts):
            keep[name] = surer_facts(old, new)
        elif isinstance(old, Known) and isinstance(new, Known):
            keep[name] = old if _WEIGHT[old.origin] > _WEIGHT[new.origin] else new
    return msgspec.structs.replace(overlaid(base, over), **keep)


def merged_machine(machines: Iterable[Machine]) -> Machine:
    """Each laid over those before it; a GPU that two of them describe is one."""
    whole = Machine()
    for machine in machines:
        first, second = whole.gpus, machine.gpus
        if not isinstance(second, Known) or not second.value:
            gpus = first if isinstance(first, Known) or second == NOT_LOOKED else second
        elif not isinstance(first, Known) or not first.value:
            gpus = second
        else:
            gpus = Known(paired_gpus(first.value, second.value), second.origin, f"{first.source}, {second.source}")
        whole = overlaid(whole, msgspec.structs.replace(machine, gpus=NOT_LOOKED))
        whole = msgspec.structs.replace(whole, gpus=gpus)
    if not isinstance(whole.gpus, Known):
        return whole
    ordered = Known(gpus_in_order(whole.gpus.value), whole.gpus.origin, whole.gpus.source)
    return msgspec.structs.replace(whole, gpus=ordered)


def paired_gpus(first: Sequence[Gpu], second: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """GPUs of two descriptions: those that can be the same are laid over one another, in their order."""
    gpus, free = list(first), set(range(len(first)))
    for gpu in second:
        alike = [place for place in sorted(free) if _may_be_the_same(gpus[place], gpu)]
        # of several that are alike, the one with the same number
        partner = min(alike, key=lambda place: (gpus[place].index != gpu.index, place), default=None)
        if partner is None:
            gpus.append(gpu)
        else:
            free.discard(partner)
            gpus[partner] = msgspec.structs.replace(overlaid(gpus[partner], gpu), index=gpu.index)
    return tuple(gpus[:MOST_GPUS])


def _may_be_the_same(one: Gpu, other: Gpu) -> bool:
    """By the words of their names where both have one, else by maker and number."""
    ours, theirs = (set(_NOISE.sub(" ", gpu.name.value_or("")).casefold().split()) for gpu in (one, other))
    if ours and theirs:
        return ours <= theirs or theirs <= ours
    makers = {str(gpu.vendor.value_or("")).casefold() for gpu in (one, other)} - {""}
    return one.index == other.index and len(makers) <= 1


@cache
def line_dialects() -> dict[str, LineDialect]:
    """Every way to read a log line by line, by the name of its module."""
    return {name: module.DIALECT for name, module in _modules().items() if hasattr(module, "DIALECT")}


@cache
def text_dialects() -> dict[str, TextDialect]:
    """Every way to read a block of text, by its name; command lines have one for each runtime."""
    blocks: dict[str, TextDialect] = {}
    for name, module in _modules().items():
        blocks |= getattr(module, "TEXT_DIALECTS", {})
        if hasattr(module, "parse_text"):
            blocks[name] = module.parse_text
    of_commands = {f"{name} {COMMAND_DIALECT}": partial(parse_commands, each) for name, each in command_lines().items()}
    # by name: what is read later is laid over what was read before
    return dict(sorted(blocks.items())) | of_commands


@cache
def _modules() -> dict[str, ModuleType]:
    names = [info.name for info in pkgutil.iter_modules(logs.__path__)]
    return {name: importlib.import_module(f"{logs.__name__}.{name}") for name in names}

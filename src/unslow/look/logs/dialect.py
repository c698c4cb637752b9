"""What a dialect is: a way of reading text that some program writes.

A *line dialect* is fed the lines that hold one of its needles, in order, and may never see the others: that is what
lets a log of gigabytes stream in constant memory. A module offers it as `DIALECT`. A *text dialect* reads a table or a
block whole, from a text of bounded size; a module offers it as `parse_text`, or several by their names as
`TEXT_DIALECTS`. Both leave a `LogFacts`: facts, each with the file and line it comes from. Modules of `look.logs`
are found by presence.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from unslow.facts.machine import Facts, Machine
from unslow.facts.run import Completion, Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, reported_fact
from unslow.look.completion_summary import run_of_completions

R = TypeVar("R")
Take = TypeVar("Take", bound=Callable[..., None])

LONGEST_LINE = 8192  # No reader is shown more of a line than this; longer ones are cut around the needle
_KEPT_REQUESTS = 1000


class LogFacts(Facts, frozen=True, kw_only=True):
    """What one dialect made of a text; `lines` is how many lines it recognised."""

    machine: Machine = Machine()
    subject: Subject = Subject()
    lines: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    """Indexes in the text, the first and one past the last, of blocks that a text dialect read: they are not prose."""


class LineReader(Protocol):
    """One pass over one text. Bounded: a made-up log of any size costs the same memory."""

    def take(self, line: str, where: str) -> bool:
        """Read a line without colours, at most `LONGEST_LINE` characters; whether it was recognised."""
        ...

    def skip(self, needle: str, count: int) -> None:
        """`count` more lines with this needle are not shown, because they repeat earlier ones."""
        ...

    def log_facts(self, source: str) -> LogFacts:
        """What it all adds up to."""
        ...


class NamedReader:
    """A reader of one program's lines, which need no more than its facts, its runs and the first line that names it."""

    program = ""

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}  # of the runtime, by their names
        self.named = ""
        self.lines = 0
        self.requests: deque[Completion] = deque(maxlen=_KEPT_REQUESTS)
        self.requests_where = ""

    def recognise(self, line: str, where: str) -> bool:
        """Note what a line says; whether it is one of this program."""
        raise NotImplementedError

    def take(self, line: str, where: str) -> bool:
        if known := self.recognise(line, where):
            self.named = self.named or where
            self.lines += 1
        return known

    def skip(self, needle: str, count: int) -> None:
        """Lines that repeat others change little: a warning is known, and a median stays."""

    def log_facts(self, source: str) -> LogFacts:  # noqa: ARG002 (every fact has its own line)
        """The runtime by its lines, its runs, and the machine as it saw it."""
        if not self.lines:
            return LogFacts()
        runtime = Runtime(name=reported_fact(self.program, self.named)).with_facts(**self.facts)
        return LogFacts(machine=self.machine(), subject=Subject(runtime=runtime, run=self.run()), lines=self.lines)

    def machine(self) -> Machine:
        return Machine()

    def run(self) -> Run:
        """Its requests as a measurement."""
        done = reported_fact(tuple(self.requests), self.requests_where)
        return run_of_completions(done, NOT_LOOKED) if self.requests else Run()


class LineDialect(NamedTuple):
    """A way to read a log line by line."""

    needles: tuple[str, ...]
    """Every line that matters holds one of these, case and all; short and common words cost speed."""
    start: Callable[[], LineReader]
    chatty: frozenset[str] = frozenset()
    """Needles of lines that come with every request: of a long log, a few in each megabyte tell enough."""


@dataclass
class Rule(Generic[R]):
    """A kind of line: texts of which it must hold one, what to read from it, and what that means to what is known."""

    needles: tuple[str, ...]
    regex: str
    take: Callable[[R, re.Match[str], str], None]
    own: bool  # Whether no other program writes it

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled for the first line that holds a needle: there are hundreds of rules, and a log needs few of them."""
        return re.compile(self.regex)


class Rules(list[Rule[R]]):
    """Rules in the order in which they are tried; called with needles and a pattern, it adds what it decorates."""

    def __call__(self, needles: str | tuple[str, ...], pattern: str, *, own: bool = True) -> Callable[[Take], Take]:
        def add(take: Take) -> Take:
            self.append(Rule((needles,) if isinstance(needles, str) else needles, pattern, take, own))
            return take

        return add

    def note(
        self,
        facts: str,
        needles: str | tuple[str, ...],
        pattern: str,
        value: Callable[[str], Any] = str,
        *,
        into: str = "facts",
        own: bool = True,
        first: bool = False,
    ) -> None:
        """A line that says facts, named with blanks between them: the texts of the pattern's groups, made values.

        A pattern without a group says one fact, one group says every fact, and a group may be missing or have no value.
        `into` is where a reading holds such facts; with `first`, what an earlier line said is kept.
        """
        names, held = facts.split(), attrgetter(into)

        @self(needles, pattern, own=own)
        def take(reading: Any, found: re.Match[str], where: str) -> None:
            known, texts = held(reading), found.groups() or (found[0],)
            for name, text in zip(names, texts * len(names) if len(texts) == 1 else texts, strict=False):
                if text is not None and not (first and name in known) and (said := value(text)) is not None:
                    known[name] = reported_fact(said, where)

    def note_value(self, fact: str, needle: str, pattern: str, *, value: Any, into: str = "facts") -> None:
        """A line that is there only where a fact has this value."""
        self.note(fact, needle, pattern, lambda _: value, into=into)


def needles_of(rules: Iterable[Rule[Any]]) -> tuple[str, ...]:
    """All needles, once each."""
    return tuple(dict.fromkeys(needle for rule in rules for needle in rule.needles))


class Text(NamedTuple):
    """Lines of a text and their numbers, so that facts can say where they stand."""

    lines: Sequence[str]
    source: str
    first: int = 1
    numbers: Sequence[int] = ()  # The number of every line, where they do not follow one another

    def number(self, index: int) -> int:
        return self.numbers[index] if self.numbers else self.first + index

    def where(self, index: int) -> str:
        return f"{self.source}:{self.number(index)}"


TextDialect = Callable[[Text], LogFacts]
"""Reads blocks (tables, commands' outputs): what a text holds of them; an empty `LogFacts` where it holds none."""

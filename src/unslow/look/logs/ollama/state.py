"""Lines as Ollama writes them, in Go's sizes and durations, and what one pass remembers of them."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from unslow.facts.masking import masked_text
from unslow.facts.runtime import Buffer, PastLoad, SeenDevice
from unslow.facts.snapshot import Contradiction
from unslow.facts.values import NOT_LOOKED, Known, reported_fact

FactsByName = dict[str, Known[Any]]
Take = TypeVar("Take", bound=Callable[..., bool])
LONGEST_LINE = 8192
MOST_MESSAGE = 300
KEPT_LOADS = 200
KEPT_REQUESTS = 200
KEPT_WAITS = 20  # The last of them: earlier ones tell of another hour
KEPT_DEVICES = 64
KEPT_KINDS = 60
KEPT_OF_A_KIND = 2

# a line
_FIELD = re.compile(
    r"(?<![\w.])([A-Za-z_][\w.]{0,60})="
    r'(?:"((?:[^"\\]|\\.)*)'  # "in quotes", or cut off inside them
    r"|(\[[^\]]*\]?)"  # [a list]
    r'|((?:[^\s",;\[\]{}]|,(?=\d))+(?:\s[KMGT]?i?B\b)?))'  # bare; a size keeps its unit
)
_TIME = re.compile(r"\b(\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d)|\b(\d{1,2}:\d\d(?::\d\d)?)\b")
_ESCAPED = re.compile(r"\\(.)")
_TARGET = re.compile(r"\bgfx[0-9a-f]{3,5}\b")
"""What AMD calls the architecture of a GPU; the field that holds it has changed its name."""

# sizes and durations, as Go writes them
_SIZE = re.compile(r"(?<![-\d.])(\d{1,18}(?:\.\d{1,9})?)\s?([KMGTP]?)(i?)B\b", re.IGNORECASE)
_PLAIN = re.compile(r"\d{1,18}")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_PART = r"\d{1,15}(?:\.\d{1,12})?(?:h|ms|m|s|µs|μs|us|ns)"  # both Greek letters: keyboards and fonts differ
_DURATION = re.compile(rf"(?:{_PART}){{1,6}}")
DURATION = _DURATION.pattern  # A duration inside another pattern
_PARTS = re.compile(r"(\d{1,15}(?:\.\d{1,12})?)(h|ms|m|s|µs|μs|us|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "μs": 1e-6, "us": 1e-6, "ns": 1e-9}
_MOST_BYTES = 2**60
_MOST_SECONDS = 1e9


class Line(NamedTuple):
    """One line, taken apart."""

    text: str
    fields: dict[str, str]
    where: str

    @property
    def at(self) -> str:
        """When it was written, as it says itself; empty where it does not."""
        found = _TIME.search(self.text)
        return self.fields.get("time", found[0] if found else "")[:40]

    def sizes(self, **names: str) -> "FactsByName":
        """Facts by the names of the fields that hold them, of those that are sizes."""
        found = ((fact, parse_size_bytes(self.fields.get(name, ""))) for fact, name in names.items())
        return {fact: reported_fact(size, self.where) for fact, size in found if size is not None}

    def message(self) -> str:
        """What the line tells a person, without what could name one."""
        message = self.fields.get("msg", "")
        if not message:
            return masked_text(self.text.strip())[:MOST_MESSAGE]
        more = (self.fields.get(name, "") for name in ("error", "hint", "required_driver", "type", "value"))
        target = "" if _TARGET.search(message) else next(filter(_TARGET.fullmatch, self.fields.values()), "")
        said = ": ".join(part for part in (message, target, *more) if part)
        return masked_text(said)[:MOST_MESSAGE]


class Rules(list[tuple[tuple[str, ...], Callable[["Reading", Line], bool], bool]]):
    """Texts of which a kind of line holds one, what takes it in, and whether only Ollama writes such lines.

    What takes a line in says whether it was really of this kind. Called with such texts, it adds what it decorates.
    """

    def __call__(self, *needles: str, own: bool = False) -> Callable[[Take], Take]:
        def add(take: Take) -> Take:
            self.append((needles, take, own))
            return take

        return add


@dataclass
class Loading:
    """One model being loaded; `kinds` are the lines that a load prints once."""

    at: str = ""
    where: str = ""
    facts: FactsByName = field(default_factory=dict)
    model: FactsByName = field(default_factory=dict)
    buffers: dict[tuple[str, str], tuple[Buffer, str]] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    seconds: Known[float] | None = None
    settings: str = ""
    context_cut: Contradiction | None = None
    requests: int = 0
    used_until: str = ""
    stopped: bool = False
    after_start: bool = False
    failed: bool = False
    done: bool = False

    def past(self, requests_where: str = "") -> PastLoad:
        """The load as one of several; `requests_where` is where requests were counted, empty where they were not."""
        return PastLoad(
            at=self.at,
            model=self.model.get("path", NOT_LOOKED),
            context_length=self.facts.get("context_length", NOT_LOOKED),
            gpu_layers=self.facts.get("gpu_layers", NOT_LOOKED),
            layers=self.facts.get("layers", NOT_LOOKED),
            free_bytes=self.facts.get("available_bytes", NOT_LOOKED),
            asked_bytes=self.facts.get("asked_bytes", NOT_LOOKED),
            seconds=self.seconds or NOT_LOOKED,
            settings=self.settings,
            requests=reported_fact(self.requests, requests_where) if requests_where else NOT_LOOKED,
            used_until=self.used_until,
            stopped=self.stopped,
            failed=self.failed and not self.seconds,
            after_start=self.after_start,
            source=self.where,
        )


@dataclass
class Waits:
    """What requests waited for before llama-server began with them: Ollama's whole time less the server's.

    Ollama holds back what is more than its slots, so that only the two times tell of it. Each request ends with a line
    of either, in any order.
    """

    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_WAITS))
    _answered: float | None = None
    _whole: tuple[float, float | None, bool] | None = None
    _end: float | None = None  # Of the request before, by the clock

    def answer(self, took: float) -> None:
        """llama-server has answered one."""
        self._answered = took
        self._pair()

    def end(self, took: float, at: float | None, *, loaded: bool) -> None:
        """Ollama has; `loaded` says that it loaded the model for it."""
        self._whole = took, at, loaded
        self._pair()

    def begin(self) -> None:
        """Another one is begun."""
        self._whole = None

    def _pair(self) -> None:
        if self._answered is None or self._whole is None:
            return
        (whole, at, loaded), answered, before = self._whole, self._answered, self._end
        self._answered, self._whole, self._end = None, None, at
        if loaded:
            return
        # one that came after the one before had ended did not wait for it: times are written in whole seconds
        followed = at is not None and before is not None and at - whole > before + 1.0
        self.seconds.append(0.0 if followed else max(0.0, whole - answered))


@dataclass
class Reading:
    """Everything known after the lines so far."""

    process: FactsByName = field(default_factory=dict)
    memory: FactsByName = field(default_factory=dict)
    cpu: FactsByName = field(default_factory=dict)
    system: FactsByName = field(default_factory=dict)
    devices: dict[str, tuple[SeenDevice, str]] = field(default_factory=dict)
    devices_listed: str = ""
    refused: tuple[int, Known[str]] | None = None
    load: Loading = field(default_factory=Loading)
    loads: deque[Loading] = field(default_factory=lambda: deque(maxlen=KEPT_LOADS))
    requests: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_REQUESTS))
    context_cut: Contradiction | None = None  # Of the load that comes next
    waits: Waits = field(default_factory=Waits)
    requests_where: str = ""
    requests_skipped: bool = False  # Whether a log was too long to show every request
    started: bool = False  # Whether a server started after the last load
    warnings: dict[str, list[str]] = field(default_factory=dict)
    warnings_where: str = ""
    surely: str = ""  # The first line that only Ollama writes
    recognised: int = 0

    def load_with(self, kind: str, line: Line) -> Loading:
        """The load that this line belongs to: a new one where the current has ended or had such a line already."""
        if self.load.done or kind in self.load.kinds:
            self.close_load()
        if not self.load.kinds:
            self.load.where = line.where
            self.load.after_start, self.started = self.started, False
        self.load.at = self.load.at or line.at
        self.load.kinds.add(kind)
        return self.load

    def close_load(self) -> None:
        if self.load.kinds:
            self.loads.append(self.load)
        self.load = Loading()

    def warn(self, line: Line) -> None:
        """Remember a complaint: few of each kind, of few kinds."""
        kind = re.sub(r"\d+", "", line.fields.get("msg", line.text))[:60]
        if kind in self.warnings or len(self.warnings) < KEPT_KINDS:
            same = self.warnings.setdefault(kind, [])
            if len(same) < KEPT_OF_A_KIND:
                same.append(line.message())
        self.warnings_where = self.warnings_where or line.where


def _unescaped(found: re.Match[str]) -> str:
    """What a backslash stands for, in one line."""
    return " " if found[1] in "nrt" else found[1]


def parse_line(text: str, where: str) -> Line:
    """The fields of `time=... level=INFO msg="several words" key=value` by name; of one that is given twice the first.

    A quoted line may have lost its head, quotes or brackets: fields are found wherever they stand.
    """
    text = text[:LONGEST_LINE]
    if '=\\"' in text:
        text = text.replace('\\"', '"')  # a line inside JSON, as `docker inspect` and log collectors keep it
    fields: dict[str, str] = {}
    for name, quoted, listed, bare in _FIELD.findall(text):
        fields.setdefault(name, _ESCAPED.sub(_unescaped, quoted) if quoted else listed or bare.rstrip("."))
    return Line(text, fields, where)


def parse_size_bytes(text: str) -> int | None:
    """The first size of a text, or a bare number of bytes; None where there is neither."""
    sizes = parse_all_sizes(text)
    if sizes:
        return sizes[0]
    plain = _PLAIN.fullmatch(text.strip())
    return int(plain[0]) if plain and int(plain[0]) < _MOST_BYTES else None


def parse_all_sizes(text: str) -> list[int]:
    """Every size of a text such as `[22.0 GiB 11.5 GiB]`; GB is decimal and GiB is not, as Ollama writes them."""
    found = []
    for number, letter, binary in _SIZE.findall(text):
        size = round(float(number) * (1024 if binary else 1000) ** _POWERS[letter.upper()])
        if size < _MOST_BYTES:
            found.append(size)
    return found


def parse_seconds(text: str) -> float | None:
    """A duration in seconds; None where the text is none."""
    text = text.strip()
    if not _DURATION.fullmatch(text):
        return None
    total = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
    return total if total < _MOST_SECONDS else None


def seconds_of_day(text: str) -> float:
    """The seconds of `17:46:45`."""
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return 3600.0 * hours + 60.0 * minutes + seconds

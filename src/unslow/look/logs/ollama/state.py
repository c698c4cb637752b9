"""What one pass over Ollama's log remembers: the server, the load it is at, the loads before. All of it bounded."""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unslow.facts.runtime import Buffer, PastLoad, SeenDevice
from unslow.facts.snapshot import Contradiction
from unslow.facts.values import NOT_LOOKED, Fact, Known, reported
from unslow.look.logs.ollama.slog import Line

FactsByName = dict[str, Known[Any]]

KEPT_LOADS = 200
KEPT_REQUESTS = 200
KEPT_DEVICES = 64
KEPT_KINDS = 60
KEPT_OF_A_KIND = 2


class Rule(NamedTuple):
    """A kind of line: a text that it must hold, and what it means."""

    needle: str
    take: Callable[["Reading", Line], bool]
    """Whether the line was really of this kind."""


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
        asked: Fact[int] = self.facts.get("asked_bytes", NOT_LOOKED)
        return PastLoad(
            at=self.at,
            model=self.model.get("path", NOT_LOOKED),
            context_length=self.facts.get("context_length", NOT_LOOKED),
            gpu_layers=self.facts.get("gpu_layers", NOT_LOOKED),
            layers=self.facts.get("layers", NOT_LOOKED),
            free_bytes=self.facts.get("available_bytes", NOT_LOOKED),
            asked_bytes=asked,
            seconds=self.seconds or NOT_LOOKED,
            settings=self.settings,
            requests=reported(self.requests, requests_where) if requests_where else NOT_LOOKED,
            used_until=self.used_until,
            stopped=self.stopped,
            failed=self.failed and not self.seconds,
            after_start=self.after_start,
            source=self.where,
        )


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
    context_cut: Contradiction | None = None
    """Of the load that comes next."""
    requests_where: str = ""
    requests_skipped: bool = False
    """Whether a log was too long to show every request."""
    started: bool = False
    """Whether a server started after the last load."""
    warnings: dict[str, list[str]] = field(default_factory=dict)
    warnings_where: str = ""
    surely: str = ""
    """The first line that only Ollama writes."""
    recognised: int = 0

    def start_server(self) -> None:
        """A server starts: devices and refusals are found anew; what was loaded is gone."""
        self.started = True
        if self.devices_listed or self.load.kinds:
            self.close_load()
            self.process, self.devices, self.devices_listed, self.refused = {}, {}, "", None

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
        """Put the current load among those that were."""
        if self.load.kinds:
            self.loads.append(self.load)
        self.load = Loading()

    def warn(self, line: Line) -> None:
        """Remember a complaint: few of each kind, of few kinds."""
        kind = re.sub(r"\d+", "", line.fields.get("msg", line.text))[:60]
        if kind in self.warnings or len(self.warnings) < KEPT_KINDS:
            same = self.warnings.setdefault(kind, [])
            if len(same) < KEPT_OF_A_KIND:
                same.append(line.said())
        self.warnings_where = self.warnings_where or line.where

    def is_ollama(self, line: Line) -> None:
        """Only Ollama writes such a line."""
        self.surely = self.surely or line.where

"""What a measurement is to the one who decides: what it would tell, and how long it would take."""

from collections.abc import Callable
from typing import NamedTuple

from unslow.facts.snapshot import Case


class Load(NamedTuple):
    """What a measurement asks of a server, one after the other."""

    prompt_tokens: float = 0.0
    generated_tokens: float = 0.0
    seconds: float = 0.0
    """Beyond what the server computes: waiting, watching, connecting."""


class Measurement(NamedTuple):
    """One thing that can be measured; `name` is also that of the trial in `unslow.look.bench.trials`."""

    name: str
    doing: str
    """What is being done, as a progress line says it: "reading a prompt of 2,048 tokens"."""
    why: str
    """What for, as it goes on: "to see whether prompts are read as fast as they could be"."""
    fills: tuple[str, ...]
    """The facts that it would fill, by path."""
    load: Callable[[Case], Load]
    sends: bool = True
    """Whether it gives the server work to do; what only watches may be done with a busy one."""
    possible: Callable[[Case], bool] = lambda _case: True
    """Whether it can be done here at all: the context is large enough, there are several slots, ..."""
    about: tuple[str, ...] = ()
    """Causes that can be told without it, and be told better with it."""


class Choice(NamedTuple):
    """The measurement to make next, which causes it would settle, and how long it should take."""

    measurement: Measurement
    settles: tuple[str, ...]
    """What weighs most first."""
    seconds: float
    worth_per_s: float = 0.0
    """By how much of the lost time each second is expected to explain."""
    decides_suspicion: bool = False
    """Whether something speaks already for a cause that it would settle: such a one comes before those merely open."""

"""What a fault is: how a healthy server is made slow, which cause a diagnosis should then name, and the cure."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Metric = Literal["decode", "prefill", "first_token", "load", "together"]
"""What the cure should improve: tokens per second, prompt tokens per second, seconds to the first token,
seconds to load, or tokens per second of all users together."""


class SkippedError(Exception):
    """The fault can't be made on this machine; the message says what it lacks."""


@dataclass(frozen=True)
class Stage:
    """All that stands around one server: how it is started, what surrounds it, who asks it meanwhile."""

    arguments: tuple[str, ...] = ()
    """Of the server, beyond the model and the address; `{models}` stands for the folder of the models."""
    environment: dict[str, str] = field(default_factory=dict)
    wrap: tuple[str, ...] = ()
    """A command in front of the server's: `taskset -c 0`, ... It must become the server, as `exec` does."""
    around: tuple[Callable[["Playing"], AbstractContextManager[object]], ...] = ()
    """What is done before the server starts and undone after it has ended: a stranger takes VRAM, a cgroup is made."""
    beside: tuple[Callable[["Playing"], AbstractContextManager[object]], ...] = ()
    """What goes on while the loaded server is diagnosed: busy loops, other clients, a slow proxy."""
    model: str = ""
    """Another model file of the models folder than the fault's own."""
    server: str = "llama-server"
    """Another program of the servers' folder: a generic build, ..."""


class Heard(NamedTuple):
    """One answer as whoever asked for it saw it."""

    at_s: float
    """When it was whole, by the monotonic clock."""
    first_token_s: float
    tokens: int
    seconds: float
    """From the first token to the last."""
    prompt_tokens: int = 0
    """Those that the server computed, and how long it says that took."""
    prompt_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Of the answer, its first token not counted."""
        return (self.tokens - 1) / self.seconds if self.tokens > 1 and self.seconds > 0 else 0.0


@dataclass
class Playing:
    """A stage while it is played; whatever surrounds the server may change what is about to be started."""

    url: str
    port: int
    scratch: str
    """A folder of this stage's own."""
    command: list[str]
    environment: dict[str, str]
    models: str = ""
    pid: int = 0
    """The server's, once it runs."""
    diagnose_url: str = ""
    """What is diagnosed, where that is not the server itself."""
    log: str = ""
    """The file that the server's output goes to."""
    load_s: float | None = None
    """From the start until it was healthy; None where it never was."""
    clients: int = 0
    """How many ask it all the while; where there are any, they tell how fast it is."""
    heard: list[Heard] = field(default_factory=list)
    """What they were answered."""

    @property
    def model(self) -> str:
        """The file that the server was told to load."""
        return self.command[self.command.index("-m") + 1] if "-m" in self.command else ""

    def instead(self, old: str, new: str) -> None:
        """Change one word of the command."""
        self.command[:] = [new if word == old else word for word in self.command]


@dataclass(frozen=True)
class Fault:
    """One row of the lab. A healthy control has no cause, and its cure is None."""

    name: str
    what: str
    """What was done, in one line, for whoever reads the recording."""
    where: tuple[str, ...]
    """`cpu` or `gpu`: a llama-server there; another runtime of lab/real by its name."""
    model: str
    stage: Stage
    cause: str = ""
    also: tuple[str, ...] = ()
    """Causes that may be named beside it: consequences, or a second fault."""
    either: bool = False
    """Whether those beside it cost about as much: then any of them may stand first, but all must be named."""
    verdict: Literal["slow", "normal", "failed"] = "slow"
    cure: Stage | None = None
    metric: Metric = "decode"
    flags: tuple[str, ...] = ()
    """Of `unslow diagnose`, beyond the usual."""
    fresh: bool = False
    """Whether it was thought up after the causes were mended with the others: its score is the honest one."""

"""A server that is measured, and how: what every dialect of asking needs to know."""

from typing import NamedTuple

from unslow.facts.run import Completion
from unslow.look.openai_api.server import Server
from unslow.look.system import System


class Plan(NamedTuple):
    """How long to measure, and on which slot of the server."""

    seconds_per_completion: float = 6.0
    slot: int | None = None


class Target(NamedTuple):
    """A server to measure: its process is known where it runs on this machine."""

    url: str
    api_key: str = ""
    pid: int | None = None
    runtime: str = "llama.cpp"
    model: str = ""
    context: int | None = None
    """The context that the model is loaded with, for servers that would load it anew for another."""

    def server(self, system: System) -> Server:
        """The server, to be asked."""
        return Server(system, self.url, self.api_key)


class Timed(NamedTuple):
    """A completion and who timed it."""

    completion: Completion
    clock: str
    prompt_timed: bool = True
    """Whether the time of the prompt is the server's own, without the way there and the queue."""

"""A serving engine that is told everything by flags: by its process, by its address, by a command line alone."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, not_found, reported
from unslow.look.addresses import is_here
from unslow.look.command_line import COMMAND, UNSET, Setting
from unslow.look.logs.dialect import LineDialect
from unslow.look.openai_api.server import Server
from unslow.look.processes import Process, words_of
from unslow.look.serving.arguments import Flags
from unslow.look.serving.model_folder import model_of_name, places_of, with_files
from unslow.look.serving.own_log import read_own_log
from unslow.look.serving.processes import of_process
from unslow.look.system import LookError, System, unknown

_TOLD_BY_ANSWERS = ("state", "busy_slots", "running_requests", "deferred_requests", "kv_usage")


class Told(Protocol):
    """Settings as facts; `complete` says that whatever could have set one was seen, so that absence is a fact."""

    def __call__(self, settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
        """The facts."""
        ...


class Engine(NamedTuple):
    """What tells one engine from another."""

    name: str
    flags: Flags
    told: Told
    dialect: LineDialect
    how_to_log: str
    url_of: Callable[[Mapping[str, Setting]], Fact[str]]
    ask: Callable[[Server], Subject | None]
    """What a server answers; None where it is another engine's."""
    marked_variables: bool
    """Whether its variables carry its name: only such are kept, so that others may have set what no flag does."""

    def read_url(self, system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
        """The server at a URL; None where something else answers."""
        subject = self.ask(Server(system, url.rstrip("/"), api_key))
        if subject is None:
            return None
        model = subject.model
        if is_here(url):
            model = with_files(system, model, model.path.value_or("") or model.name.value_or(""), {}, [""])
        return (msgspec.structs.replace(subject, model=model),)

    def read(self, process: Process, api_key: str) -> tuple[Subject, ...]:
        """A server by its process: what it was told, what its log says, what it answers."""
        settings = self.flags.settings(words_of(process.command()), process.environment().value_or({}))
        url = self.url_of(settings)
        http = self._answered(process.system, url, api_key or settings.get("api_key", UNSET).value)
        path, log = read_own_log(process, self.dialect, self.how_to_log)
        runtime = overlaid(self.told(settings, complete=self.marked_variables), log.runtime)
        runtime = overlaid(overlaid(runtime, http.runtime), of_process(process, self.name, self.flags, url, path))
        written = settings.get("model", UNSET).value
        model = overlaid(model_of_name(written, COMMAND), overlaid(log.model, http.model))
        model = with_files(process.system, model, written, places_of(process), process.roots())
        return (Subject(runtime=runtime, model=model, run=http.run),)

    def _answered(self, system: System, url: Fact[str], api_key: str) -> Subject:
        why: Unknown
        try:
            subject = self.ask(Server(system, url.value, api_key)) if isinstance(url, Known) else None
            why = url if isinstance(url, Unknown) else not_found(f"something else answers at {url.value}")
        except LookError as error:
            subject, why = None, unknown(error)
        facts: dict[str, Any] = dict.fromkeys(_TOLD_BY_ANSWERS, why)
        return subject or Subject(runtime=Runtime(**facts))


def parse_command(
    name: str, flags: Flags, told: Told, command: Sequence[str], environment: Mapping[str, str]
) -> Subject:
    """What a command line asks for, whoever pasted it."""
    settings = flags.settings(command, environment)
    runtime = msgspec.structs.replace(
        told(settings, complete=False),
        name=reported(name, COMMAND),
        command=reported(flags.without_secrets(command), COMMAND),
    )
    return Subject(runtime=runtime, model=model_of_name(settings.get("model", UNSET).value, COMMAND))

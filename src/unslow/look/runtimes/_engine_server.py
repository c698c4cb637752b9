"""A serving engine (vLLM, SGLang, TGI) as a subject: its process, log, answers, and its model's folder."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import GIB, LARGEST_COUNT, Fact, Known, Unknown, not_found, not_supported, reported_fact
from unslow.look.command_line import COMMAND, UNSET, Flags, Setting
from unslow.look.logs.dialect import LineDialect
from unslow.look.logs.stream import LogStream, whole_line_blocks
from unslow.look.models.safetensors import config_facts, model_facts, read_checkpoint, read_config_alone
from unslow.look.openai_api import OK, Server
from unslow.look.processes import Process, outermost, words_of
from unslow.look.running_server import process_facts
from unslow.look.server_answers import Metrics, parse_metrics, value_at
from unslow.look.system import LookError, System, read_text, try_look, unknown
from unslow.look.system.http import LOCAL_HOST, is_local_url, is_port, reachable_host

_UNKNOWN_ADDRESS = (400, 404, 405, 501)
_MOST_GIBIBYTES = 2**30
_LONGEST_TEXT = 200
HEAD_BYTES = 4 * 1024**2
TAIL_BYTES = 2 * 1024**2
_TOLD_BY_ANSWERS = ("state", "busy_slots", "running_requests", "deferred_requests", "kv_usage")
_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_CACHES = {"HF_HUB_CACHE": "", "HUGGINGFACE_HUB_CACHE": "", "HF_HOME": "/hub", "HOME": "/.cache/huggingface/hub"}
"""Below which variable a process keeps what it downloads, in the order in which they are tried."""
_REVISION_BYTES = 256


def answer_if_offered(server: Server, *paths: str) -> tuple[Any, str] | None:
    """The JSON of the first address that the server knows, and its path; None where it knows none; else LookError."""
    for path in paths:
        answer = server.ask(path)
        if answer.status in _UNKNOWN_ADDRESS:
            continue
        if answer.status != OK:
            server.json(path)  # raises, with the reason
        try:
            return answer.json(), path
        except LookError:
            continue
    return None


def metrics_of(server: Server, prefix: str) -> Metrics | None:
    """The metrics of this prefix; None where the server has none."""
    metrics = parse_metrics(try_look("", server.text, "/metrics"), f"{server.url}/metrics", prefix)
    return metrics if metrics.samples else None


def text(value: Any) -> str | None:
    """A word that chooses something."""
    chosen = isinstance(value, str) and value not in ("", "auto")
    return value[:_LONGEST_TEXT].removeprefix("torch.") if chosen else None


KINDS: Mapping[str, Callable[[Any], Any]] = {
    "text": text,
    "count": lambda value: value if type(value) is int and 0 < value < LARGEST_COUNT else None,
    "share": lambda value: float(value) if type(value) in (int, float) and 0 < value <= 1 else None,
    "truth": lambda value: value if isinstance(value, bool) else None,
    "untruth": lambda value: not value if isinstance(value, bool) else None,  # as of `disable_something`
    "gibibytes": lambda value: (
        round(value * GIB) if type(value) in (int, float) and 0 <= value < _MOST_GIBIBYTES else None
    ),
}
"""What a value must be, and the fact that it is; None for any other. Counts are above zero, sizes become bytes."""


def facts_at(data: Any, places: Mapping[str, tuple[str, ...]], source: str) -> dict[str, Known[Any]]:
    """The facts that are there, each by its kind and the places where it may lie, of which the first counts."""
    facts: dict[str, Known[Any]] = {}
    for fact, (kind, *paths) in places.items():
        for path in paths:
            value = KINDS[kind](value_at(data, *path.split(".")))
            if value is not None:
                facts.setdefault(fact, reported_fact(value, f"{source}: {path}"))
    return facts


class RequestedSettings(Protocol):
    """Settings as facts; `complete` says that whatever could have set one was seen, so that absence is a fact."""

    def __call__(self, settings: Mapping[str, Setting], *, complete: bool) -> Runtime:
        """The facts."""
        ...


class Engine(NamedTuple):
    """What tells one engine from another."""

    name: str
    flags: Flags
    told: RequestedSettings
    dialect: LineDialect
    how_to_log: str
    url_of: Callable[[Mapping[str, Setting]], Fact[str]]
    ask: Callable[[Server], Subject | None]  # What a server answers; None where it is another engine's
    marked_variables: bool = True
    """Whether its variables carry its name: only such are kept, so that others may have set what no flag does."""

    def read_url(self, system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
        """The server at a URL; None where something else answers."""
        subject = self.ask(Server(system, url.rstrip("/"), api_key))
        if subject is None:
            return None
        model = subject.model
        if is_local_url(url):
            model = with_files(system, model, model.path.value_or("") or model.name.value_or(""))
        return (msgspec.structs.replace(subject, model=model),)

    def read(self, process: Process, api_key: str) -> tuple[Subject, ...]:
        """A server by its process: what it was told, what its log says, what it answers."""
        settings = self.flags.settings(words_of(process.command()), process.environment().value_or({}))
        url = self.url_of(settings)
        server = Server(process.system, url.value_or(""), api_key or settings.get("api_key", UNSET).value)
        why = url if isinstance(url, Unknown) else not_found(f"something else answers at {url.value}")
        http = None
        try:
            http = self.ask(server) if isinstance(url, Known) else None
        except LookError as error:
            why = unknown(error)
        http = http or Subject(runtime=Runtime().with_facts(**dict.fromkeys(_TOLD_BY_ANSWERS, why)))
        path, log = read_own_log(process, self.dialect, self.how_to_log)
        runtime = overlaid(self.told(settings, complete=self.marked_variables), log.runtime)
        name = reported_fact(self.name, f"/proc/{process.pid}/cmdline")
        shown = process_facts(process, name, self.flags.without_secrets, url, path)
        runtime = overlaid(overlaid(runtime, http.runtime), shown)
        written = settings.get("model", UNSET).value
        model = overlaid(model_of_name(written, COMMAND), overlaid(log.model, http.model))
        model = with_files(process.system, model, written, process)
        return (Subject(runtime=runtime, model=model, run=http.run),)


def find_servers(
    processes: Sequence[Process], names: tuple[str, ...], is_server: Callable[[Sequence[str]], bool]
) -> list[Process]:
    """Processes of these names whose command line starts a server; not those within another of them."""
    servers = [p for p in processes if p.name.startswith(names) and is_server(words_of(p.command()))]
    return outermost(servers, processes)


def parse_command(
    name: str, flags: Flags, told: RequestedSettings, command: Sequence[str], environment: Mapping[str, str]
) -> Subject:
    """What a command line asks for, whoever pasted it."""
    settings = flags.settings(command, environment)
    shown = reported_fact(flags.without_secrets(command), COMMAND)
    runtime = told(settings, complete=False).with_facts(name=reported_fact(name, COMMAND), command=shown)
    return Subject(runtime=runtime, model=model_of_name(settings.get("model", UNSET).value, COMMAND))


def url_of(settings: Mapping[str, Setting], port: str) -> Fact[str]:
    """The address as this machine sees it; `port` is the usual one."""
    if "socket" in settings:
        return not_supported(f"it listens on the socket {settings['socket'].value}", "start it with a port")
    host = settings.get("host", UNSET).value
    chosen = settings.get("port", Setting(port, "default port"))
    if not is_port(chosen.value):
        return not_supported(f"{chosen.source}: {chosen.value[:40]!r} is not a port", "give the URL")
    scheme = "https" if "certificate" in settings else "http"
    reachable = LOCAL_HOST if host == "localhost" else reachable_host(host)
    return reported_fact(f"{scheme}://{reachable}:{chosen.value}", chosen.source)


def read_own_log(process: Process, dialect: LineDialect, how_to_get: str) -> tuple[Fact[str], Subject]:
    """The log that the process writes, and what it tells; the reason where none can be read."""
    why: Unknown = not_found("the server writes no log file", how_to_get)
    for path in process.outputs():
        for root in process.roots():
            try:
                parts = [process.system.read_head(root + path, HEAD_BYTES)]
                if len(parts[0]) == HEAD_BYTES:  # what lies between start and end is work that repeats
                    parts.append(process.system.read_tail(root + path, TAIL_BYTES))
            except LookError as error:
                why = unknown(error, how_to_get)
                continue
            name = path.rpartition("/")[2]
            stream = LogStream({"log": dialect}, name)
            for part, source in zip(parts, (name, f"the end of {name}"), strict=False):
                stream.source, stream.newlines = source, 0
                for block in whole_line_blocks([part]):
                    stream.feed(block)
            return reported_fact(path, f"/proc/{process.pid}/fd"), stream.readers["log"].log_facts(name).subject
    return why, Subject()


def model_of_name(written: str, source: str) -> Model:
    """A model as it was written: the last part of a folder is its name."""
    if not written:
        return Model()
    folder = written.startswith(("/", "./", "~"))
    name = written.rstrip("/").rpartition("/")[2] if folder else written
    return Model(name=reported_fact(name, source), path=reported_fact(written, source) if folder else Model().path)


def with_files(system: System, model: Model, written: str, process: Process | None = None) -> Model:
    """The headers of its files have the last word on the model; a container has a root of its own."""
    why = not_found("the server does not say where its model is")
    environment: dict[str, str] = {}  # says where it keeps models; its home is used here and kept nowhere
    if process:
        home = re.search(r"(?:^|\0)HOME=(/[^\0]{1,400})", process.text("environ"))
        environment = {**process.environment().value_or({}), **({"HOME": home[1]} if home else {})}
    for root in process.roots() if process else ("",):
        for folder in _folders(system, written, environment, root):
            try:
                if config := read_config_alone(system, f"{root}{folder}"):
                    # without weights, as with `--load-format dummy`, a log is closer than an estimate
                    read = overlaid(config_facts(config, folder), model)
                else:
                    read = model_facts(read_checkpoint(system, f"{root}{folder}"), folder)
            except LookError as error:
                why = not_found(error.why if error.why.startswith(written) else f"{written}: {error.why}")
                continue
            return overlaid(read, Model(name=model.name, path=reported_fact(folder, "its files")))
    missing: Fact[int] = model.weights_bytes if isinstance(model.weights_bytes, Known) else why
    return overlaid(model, Model(weights_bytes=missing))


def _folders(system: System, written: str, environment: Mapping[str, str], root: str) -> Iterator[str]:
    """The folder that was written, or the revisions that the main branch is at in each cache of the hub."""
    if written.startswith("/"):
        yield written
        return
    named = ((environment.get(name, ""), below) for name, below in _CACHES.items())
    caches = [f"{place}{below}" for place, below in named if place.startswith("/")]
    if environment.get("HOME") != "/root":
        caches.append(f"/root{_CACHES['HOME']}")
    for cache in caches if _NAME.fullmatch(written) else ():
        repository = f"{cache}/models--{written.replace('/', '--')}"
        revision = try_look("", read_text, system, f"{root}{repository}/refs/main", _REVISION_BYTES).strip()
        if re.fullmatch(r"[0-9a-f]{7,64}", revision):
            yield f"{repository}/snapshots/{revision}"

"""KoboldCpp as a subject: its process, its settings, its answers, its output and its model file."""

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, not_found, reported
from unslow.look.addresses import is_port, seen_host
from unslow.look.llama_server.log_file import read_own_log
from unslow.look.llama_server.process import absolute, found_server
from unslow.look.llama_server.server import with_file
from unslow.look.openai_api.server import Server
from unslow.look.processes import Process, words_of
from unslow.look.runtimes.koboldcpp.answers import NAME, answers_as_kobold, read_subject
from unslow.look.runtimes.koboldcpp.flags import Given, parse_command, parse_config, without_secrets
from unslow.look.runtimes.koboldcpp.processes import worker_of
from unslow.look.runtimes.koboldcpp.told import told
from unslow.look.system import Answer, LookError, System

DEFAULT_PORT = "5001"
_PASSWORD = "KCPP_PASSWORD"  # noqa: S105 (the name of a variable)
_NOTHING = Given((), "")


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """What answers at a URL, if it is KoboldCpp."""
    server = Server(system, url.rstrip("/").removesuffix("/v1"), api_key)
    return (read_subject(server),) if answers_as_kobold(server) else None


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """Everything that can be seen of a process."""
    given = _settings(process)
    url = url_of(given)
    http = _answers(Server(process.system, url, api_key or _password(process, given)))
    worker = worker_of(process)
    log_path, log = read_own_log(process.system, found_server(process), {})
    asked = told(given, http.runtime.version.value_or(""))
    decided = overlaid(overlaid(asked, log.runtime), http.runtime)
    runtime = overlaid(decided, _of_process(process, worker, url, log_path))
    path = given.get("model_param", _NOTHING).value
    model = overlaid(overlaid(log.model, http.model), Model(path=_model_path(process, path)))
    return (with_file(process.system, Subject(runtime=runtime, model=model), process.roots()),)


def url_of(given: dict[str, Given]) -> str:
    """Where it listens, seen from this machine: on every address unless told otherwise."""
    host, port = given.get("host", _NOTHING).value, given.get("port", _NOTHING).value
    return f"{'https' if 'ssl' in given else 'http'}://{seen_host(host)}:{port if is_port(port) else DEFAULT_PORT}"


def _settings(process: Process) -> dict[str, Given]:
    """Those of the command line; a file of settings, where it names one, decides instead."""
    given = parse_command(words_of(process.command()))
    path = absolute(given["config"].value, process.folder()) if "config" in given else not_found("no --config")
    if not isinstance(path, Known):
        return given
    for root in process.roots():
        try:
            data = Answer(0, process.system.read_bytes(root + path.value)).json()
        except LookError:
            continue
        return given | parse_config(data, path.value)
    return given


def _answers(server: Server) -> Subject:
    """What its API says; where it does not answer, that is a fact."""
    try:
        if answers_as_kobold(server):
            return read_subject(server)
        why = not_found(f"something else answers at {server.url}")
    except LookError as error:
        why = not_found(error.why, "wait until the model is loaded")
    return Subject(runtime=Runtime(url=why, state=why), model=Model(name=why))


def _password(process: Process, given: dict[str, Given]) -> str:
    """The password that it was started with; it is kept in no fact."""
    pairs = (word.partition("=") for word in process.text("environ").split("\0"))
    of_environment = next((value for name, _, value in pairs if name == _PASSWORD), "")
    return given.get("password", _NOTHING).value or of_environment


def _of_process(process: Process, worker: Process, url: str, log_path: Fact[str]) -> Runtime:
    command = process.command()
    shown = reported(without_secrets(command.value), command.source) if isinstance(command, Known) else command
    return Runtime(
        name=reported(NAME, f"/proc/{process.pid}/comm"),
        pid=reported(worker.pid, "/proc"),
        url=reported(url, "command line"),
        command=shown,
        environment=process.environment(),
        container=process.container(),
        log_path=log_path,
        resident_bytes=found_server(worker).resident_bytes,
    )


def _model_path(process: Process, path: str) -> Fact[str]:
    return absolute(path, process.folder()) if path else not_found("the command line names no model file")

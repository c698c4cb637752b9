"""MLX-LM's server as a subject: its command line, what little it answers, and its model's files."""

from collections.abc import Sequence
from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, estimated, failed, not_found, not_supported, reported
from unslow.look.addresses import is_port, seen_host
from unslow.look.command_line import UNSET, Setting
from unslow.look.llama_server.process import found_server
from unslow.look.models.safetensors import model_facts, read_checkpoint
from unslow.look.openai_api.models import Listed, parse_models
from unslow.look.openai_api.server import OK, Server, json_of
from unslow.look.processes import Process, words_of
from unslow.look.runtimes.mlx_lm.arguments import arguments_of, parse_arguments, told
from unslow.look.system import LookError, System

NAME = "MLX-LM"
DEFAULT_PORT = "8080"
HEALTH, MODELS, NOWHERE = "/health", "/v1/models", "/props"
_INTERPRETERS = ("python", "mlx_lm", "mlx-lm", "Python")
_LISTED_FIELDS = {"id", "object", "created"}
_NOT_FOUND = b"Not Found"
_LOG_BYTES = 1 << 20
_UNTOLD = not_supported("MLX-LM's server does not tell it", "time one answer: `mlx_lm.generate --model MODEL -p hello`")
_WHICH = "MLX-LM's server lists what was downloaded, and does not say what is loaded"


def find(processes: Sequence[Process]) -> list[Process]:
    """Every `mlx_lm.server`."""
    return [p for p in processes if p.name.startswith(_INTERPRETERS) and arguments_of(words_of(p.command()))]


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """Everything that can be seen of a process."""
    given = parse_arguments(arguments_of(words_of(process.command())))
    url = url_of(given)
    http = _answers(Server(process.system, url, api_key))
    shown = Runtime(
        name=reported(NAME, f"/proc/{process.pid}/cmdline"),
        pid=reported(process.pid, "/proc"),
        url=reported(url, "command line"),
        command=process.command(),
        environment=process.environment(),
        container=process.container(),
        resident_bytes=found_server(process).resident_bytes,
        longest_sequence=_longest_sequence(process),
    )
    runtime = overlaid(overlaid(http.runtime, told(given)), shown)
    name = given.get("--model", UNSET).value
    model = overlaid(http.model, _described(process, name)) if name else http.model
    state = reported("loaded", given["--model"].source) if name and _answers_at(http) else runtime.state
    return (Subject(runtime=msgspec.structs.replace(runtime, state=state), model=model),)


def _longest_sequence(process: Process) -> Fact[int]:
    """Nought where its log, which has a line for every request, shows that nobody has asked it anything yet."""
    for path in process.outputs():
        try:
            log = process.system.read_head(f"/proc/{process.pid}/root{path}", _LOG_BYTES)
        except LookError:
            continue
        if len(log) < _LOG_BYTES and b'"POST /' not in log:
            return reported(0, path)
    return _UNTOLD


def url_of(given: dict[str, Setting]) -> str:
    """Where it listens, seen from this machine."""
    host = given.get("--host", UNSET).value
    port = given.get("--port", Setting(DEFAULT_PORT, "")).value
    return f"http://{seen_host(host)}:{port if is_port(port) else DEFAULT_PORT}"


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """What answers at a URL, if it is MLX-LM; it is known by the shape of three answers."""
    subject = _subject(Server(system, url.rstrip("/").removesuffix("/v1"), api_key))
    return None if subject is None else (subject,)


def _subject(server: Server) -> Subject | None:
    if json_of(server.ask(HEALTH)) != {"status": "ok"}:
        return None
    nowhere = server.ask(NOWHERE)  # where llama-server has its settings; others say what is not found in JSON
    answer = server.ask(MODELS)
    models = json_of(answer)
    # without a Hugging Face cache on the machine 0.32 dies over its list, after it has said 200
    died = answer.status == OK and not answer.body.strip()
    if nowhere.status == OK or nowhere.body.strip() != _NOT_FOUND or not (died or is_list(models)):
        return None
    return described(parse_models(models, f"{server.url}{MODELS}") or [], server.url)


def is_list(data: Any) -> bool:
    """Whether this is MLX-LM's list of models, which says nothing of them but their names."""
    models = data.get("data") if isinstance(data, dict) else None
    return isinstance(models, list) and all(isinstance(m, dict) and set(m) == _LISTED_FIELDS for m in models)


def described(models: list[Listed], url: str) -> Subject:
    """What the answers tell."""
    source = f"{url}{MODELS}"
    alone = len(models) == 1
    which = not_supported(_WHICH, "run unslow beside the server, or start it with --model")
    runtime = Runtime(
        state=estimated("loaded", f"{source}: the only model") if alone else which,
        name=estimated(NAME, f"the shape of {url}{HEALTH} and {source}"),
        url=reported(url, "given"),
        version=_UNTOLD,
        busy_slots=_UNTOLD,
        running_requests=_UNTOLD,
        context_length=not_supported("MLX-LM's cache grows with the conversation: no length is set"),
        backends=estimated(["MLX"], "the engine of MLX-LM"),
    )
    return Subject(
        runtime=runtime, model=Model(name=estimated(models[0].name, f"{source}: the only one") if alone else which)
    )


def _answers(server: Server) -> Subject:
    """What its API says; where it does not answer, that is a fact."""
    try:
        subject = _subject(server)
    except LookError as error:
        return Subject(runtime=Runtime(state=failed(error.why)))
    if subject is None:
        return Subject(runtime=Runtime(state=not_found(f"something else answers at {server.url}")))
    return subject


def _answers_at(http: Subject) -> bool:
    """Whether it was MLX-LM that answered; then the model of its command line is loaded, which it starts with."""
    return isinstance(http.runtime.name, Known)


def _described(process: Process, name: str) -> Model:
    """The model by the files in its folder; its name is the one it was given, since any other could load another."""
    named = reported(name, "command line: --model")
    if not name.startswith("/"):
        return Model(name=named)  # one of the Hugging Face hub
    for root in process.roots():
        try:
            model = model_facts(read_checkpoint(process.system, root + name), name)
        except LookError:
            continue
        return msgspec.structs.replace(model, name=named, path=named)
    return Model(name=named, path=named)

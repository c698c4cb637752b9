"""KoboldCpp: llama.cpp in one file with an interface of its own, on port 5001.

Its command line, or the `.kcpps` file that it was started with, tells what was asked for; its API which model, how long
a context and how fast the last answer was; its output, which holds the lines of llama.cpp, what was decided. What
changed: in 1.117 flash attention is on by default and models are not mapped into memory, the other way round in 1.76;
the fit of layers to memory, `--moecpu` and names such as q8_0 for `--quantkv` came in between.
"""

from collections.abc import Sequence
from typing import Any

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, failed_fact, not_found, reported_fact
from unslow.look.command_line import COMMAND, UNSET
from unslow.look.openai_api import Server, json_if_ok
from unslow.look.processes import Process, ProcessSigns, outermost, read_processes, started_by, words_of
from unslow.look.running_server import process_facts, read_in_roots, resident_bytes
from unslow.look.runtimes._gguf_process import absolute_path, read_server_log
from unslow.look.runtimes._gguf_server import with_file
from unslow.look.runtimes._given_settings import address_of
from unslow.look.runtimes.koboldcpp.flags import parse_command, parse_config, requested_settings, without_secrets
from unslow.look.server_answers import amount_fact, count_fact, text_fact, value_at, word_at
from unslow.look.system import Answer, LookError, System, try_fact

PORTS = (5001,)
RANK = 0
PROCESSES = ProcessSigns(("koboldcpp", "python", "pypy"), "koboldcpp")
NAME = "KoboldCpp"
DEFAULT_PORT = "5001"
VERSION, MODEL = "/api/extra/version", "/api/v1/model"
CONTEXT, SPEED = "/api/extra/true_max_context_length", "/api/extra/perf"
_NO_MODEL = ("inactive", "koboldcpp/inactive", "")
_MOST_WORDS = 8


def find(processes: Sequence[Process]) -> list[Process]:
    """Each KoboldCpp once: the program starts itself again after it has unpacked itself."""
    found = []
    for process in processes:
        words = words_of(process.command()) if process.name.startswith(("python", "pypy")) else []
        if process.name.startswith("koboldcpp") or any(w.endswith("koboldcpp.py") for w in words[1:_MOST_WORDS]):
            found.append(process)
    return outermost(found, processes)


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """Everything that can be seen of a process."""
    given = parse_command(words_of(process.command()))
    config = absolute_path(given["config"].value, process.folder()) if "config" in given else not_found("no --config")
    if isinstance(config, Known):  # a file of settings, where the command line names one, decides instead
        system, written = process.system, config.value
        data = read_in_roots(process.roots(), lambda root: Answer(0, system.read_bytes(root + written)).json())
        given |= parse_config(data, written)
    url = address_of(given, DEFAULT_PORT)
    # the password that it was started with is kept in no fact
    pairs = (word.partition("=") for word in process.text("environ").split("\0"))
    of_environment = next((value for name, _, value in pairs if name == "KCPP_PASSWORD"), "")
    password = api_key or given.get("password", UNSET).value or of_environment
    http = _answers(Server(process.system, url, password))
    family = [process, *started_by(process, read_processes(process.system))]
    worker = max(family, key=lambda p: resident_bytes(p).value_or(0))  # which holds the model
    log_path, log = read_server_log(process, {})
    asked = requested_settings(given, http.runtime.version.value_or(""))
    decided = overlaid(overlaid(asked, log.runtime), http.runtime)
    name = reported_fact(NAME, f"/proc/{process.pid}/comm")
    shown = process_facts(process, name, without_secrets, reported_fact(url, COMMAND), log_path)
    shown = shown.with_facts(pid=reported_fact(worker.pid, "/proc"), resident_bytes=resident_bytes(worker))
    path = given.get("model_param", UNSET).value
    file = absolute_path(path, process.folder()) if path else not_found("the command line names no model file")
    model = overlaid(overlaid(log.model, http.model), Model(path=file))
    subject = Subject(runtime=overlaid(decided, shown), model=model)
    return (with_file(process.system, subject, process.roots()),)


def _answers(server: Server) -> Subject:
    try:
        if subject := read_subject(server):
            return subject
        why = not_found(f"something else answers at {server.url}")
    except LookError as error:
        why = not_found(error.why, "wait until the model is loaded")
    return Subject(runtime=Runtime().with_facts(url=why, state=why), model=Model(name=why))


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """What answers at a URL, if it is KoboldCpp."""
    server = Server(system, url.rstrip("/").removesuffix("/v1"), api_key)
    subject = read_subject(server)
    return (subject,) if subject else None


def read_subject(server: Server) -> Subject | None:
    """Everything that it tells; None where something else answers, LookError where nothing does."""
    if word_at(json_if_ok(server.ask(VERSION)), "result") != NAME:
        return None
    version, source = try_fact(server.json, VERSION), f"{server.url}{VERSION}"
    model, of_model = try_fact(server.json, MODEL), f"{server.url}{MODEL}"
    empty = word_at(model, "result") in _NO_MODEL
    runtime = parse_speed(try_fact(server.json, SPEED), f"{server.url}{SPEED}").with_facts(
        name=reported_fact(NAME, source),
        version=text_fact(version, source, "version"),
        url=reported_fact(server.url, "given"),
        context_length=count_fact(try_fact(server.json, CONTEXT), f"{server.url}{CONTEXT}", "value"),
        state=not_found(f"{of_model}: no model is loaded") if empty else reported_fact("loaded", of_model),
    )
    return Subject(runtime=runtime, model=Model(name=parse_name(model, of_model)))


def parse_name(data: Any, source: str) -> Fact[str]:
    """The model's name; whoever lacks the password is not told it."""
    name = word_at(data, "result")
    if name == "koboldcpp/protected-model":
        return failed_fact(f"{source}: a password is set", "give it with --api-key")
    if name in _NO_MODEL:
        return not_found(f"{source}: no model is loaded", "start KoboldCpp with --model FILE")
    return reported_fact(name.removeprefix("koboldcpp/"), source)


def parse_speed(data: Any, source: str) -> Runtime:
    """The last request, the queue, and the luck of the draft; old versions tell milliseconds for each token only."""
    idle = value_at(data, "idle")
    busy = reported_fact(int(idle == 0), source) if idle in (0, 1) else failed_fact(f"{source} does not report `idle`")
    if not count_fact(data, source, "total_gens").value_or(0):
        why = data if isinstance(data, Unknown) else not_found(f"{source}: nothing has been generated yet")
        return Runtime().with_facts(busy_slots=busy, decode_tokens_per_s=why, prefill_tokens_per_s=why)
    right, wrong = (count_fact(data, source, f"last_draft_{word}").value_or(0) for word in ("success", "failed"))
    undrafted = not_found(f"{source}: nothing was drafted")
    return Runtime().with_facts(
        busy_slots=busy,
        deferred_requests=count_fact(data, source, "queue"),
        decode_tokens_per_s=_speed(data, source, "last_eval_speed", "last_eval"),
        prefill_tokens_per_s=_speed(data, source, "last_process_speed", "last_process"),
        draft_acceptance=reported_fact(right / (right + wrong), source) if right + wrong else undrafted,
    )


def _speed(data: Any, source: str, speed: str, milliseconds: str) -> Fact[float]:
    told = amount_fact(data, source, speed)
    if isinstance(told, Known) and told.value > 0:
        return told
    each = amount_fact(data, source, milliseconds)
    if isinstance(each, Known) and each.value >= 1e-3:  # noqa: PLR2004 (a million tokens a second is none)
        return reported_fact(1000 / each.value, f"{source}: {milliseconds}")
    return failed_fact(f"{source} holds no {speed}")

"""MLX-LM's server, on port 8080 as llama-server: Apple's GPUs, or NVIDIA's since MLX has CUDA.

It tells next to nothing over HTTP: that it lives, and which models have been downloaded. Its settings are on its
command line; it loads whichever model a request names. Its log tells how far a prompt has been read; speeds are
printed by `mlx_lm.generate` alone. Since January 2026 `--decode-concurrency` says how many requests it answers at
once.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from unslow.facts.commands import by_hand
from unslow.facts.knob import Knob
from unslow.facts.knob import Setting as KnobSetting
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, estimated_fact, failed_fact, not_found, not_supported, reported_fact
from unslow.look.command_line import COMMAND, UNSET, Flag, Flags, Setting
from unslow.look.command_writer import Advice, Answer, ChangeRequest, Program, Turn, Words, advice, missing_draft
from unslow.look.models.safetensors import model_facts, read_checkpoint
from unslow.look.openai_api import OK, ListedModel, Server, json_if_ok, parse_model_list
from unslow.look.processes import Process, ProcessSigns, read_connections, words_of
from unslow.look.running_server import process_facts, read_in_roots, resident_bytes
from unslow.look.runtimes._given_settings import address_of
from unslow.look.system import LookError, System, try_look

NAME = "MLX-LM"
PORTS = (8080,)
RANK = 8  # by what it does not say
PROCESSES = ProcessSigns(("python", "mlx_lm", "mlx-lm", "Python"), "mlx.lm")
DEFAULT_PORT = "8080"
HEALTH, MODELS, NOWHERE = "/health", "/v1/models", "/props"
FLAGS = Flags(
    {
        "host": Flag(("--host",)),
        "port": Flag(("--port",)),
        "model": Flag(("--model",)),
        "batched_tokens": Flag(("--prefill-step-size",)),
        "sequences": Flag(("--decode-concurrency",)),
        "prompts": Flag(("--prompt-cache-size",)),
        "prompt_bytes": Flag(("--prompt-cache-bytes",)),
        "draft_model": Flag(("--draft-model",)),
        "draft_tokens": Flag(("--num-draft-tokens",)),
        "kv_bits": Flag(("--kv-bits",)),
    }
)
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT]?)B?", re.IGNORECASE)
_SCALES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_MOST_BYTES = 2**60
_MOST_DIGITS = 9
_USUAL_PROMPTS, _USUAL_SEQUENCES = 10, 32  # What a cache keeps, and what is answered at once (mlx_lm/server.py)
_INTERPRETERS = ("python", "mlx_lm", "mlx-lm", "Python")
_ALONE = ("kv_bits", "draft_model")
"""With these it answers one request after the other, whatever --decode-concurrency says (its _is_batchable)."""
_LISTED_FIELDS = {"id", "object", "created"}
_LOG_BYTES = 1 << 20
_KEPT = re.compile(rb"Prompt Cache: (\d{1,9}) sequences")
_PROGRESS = re.compile(rb"Prompt processing progress: (\d{1,9})/(\d{1,9})")
_MOST_PROMPTS = 8
_UNTOLD = not_supported(
    "MLX-LM's server does not report it", "time one response: `mlx_lm.generate --model MODEL -p hello`"
)
_WHICH = "MLX-LM's server lists what was downloaded, and does not say what is loaded"


def find(processes: Sequence[Process]) -> list[Process]:
    """Every `mlx_lm.server`."""
    return [p for p in processes if p.name.startswith(_INTERPRETERS) and arguments_of(words_of(p.command()))]


def arguments_of(command: Sequence[str]) -> Sequence[str]:
    """The words after the name of the server; empty where the command line is another program's.

    It is called `mlx_lm.server`, `mlx_lm server`, or `-m` with either after an interpreter.
    """
    for at, word in enumerate(command[:8]):
        name = word.rpartition("/")[2]
        if name in ("mlx_lm.server", "mlx_lm/server.py") or word.endswith("mlx_lm/server.py"):
            return command[at + 1 :] or ("",)
        if name in ("mlx_lm", "mlx-lm") and list(command[at + 1 : at + 2]) == ["server"]:
            return command[at + 2 :] or ("",)
    return ()


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """Everything that can be seen of a process."""
    given = FLAGS.settings(["", *arguments_of(words_of(process.command()))], {})
    url = address_of(given, DEFAULT_PORT)
    try:
        http = _subject(Server(process.system, url, api_key))
        http = http or Subject(runtime=Runtime(state=not_found(f"something else answers at {url}")))
    except LookError as error:
        http = Subject(runtime=Runtime(state=failed_fact(error.why)))
    logged = read_logged_requests(process)
    named = reported_fact(NAME, f"/proc/{process.pid}/cmdline")
    shown = process_facts(process, named, list, reported_fact(url, COMMAND))
    shown = shown.with_facts(resident_bytes=resident_bytes(process), longest_sequence=logged.longest)
    if requests := try_look(None, read_requests, process, url):
        running, waiting = (reported_fact(n, requests.source) for n in (requests.running, requests.waiting))
        shown = shown.with_facts(running_requests=running, busy_slots=running, deferred_requests=waiting)
    asked = requested_settings(given)
    size = _count(given, "prompts", _USUAL_PROMPTS)
    if isinstance(logged.kept, Known) and isinstance(size, Known) and not isinstance(asked.cache.ram_bytes, Known):
        free = max(0, size.value - logged.kept.value)
        shown = shown.with_facts(prompts_free=reported_fact(free, logged.kept.source))
    runtime = overlaid(overlaid(http.runtime, asked), shown)
    name = given.get("model", UNSET).value
    model = overlaid(http.model, _read_model(process, name)) if name else http.model
    # Whether it was MLX-LM that answered; then the model of its command line is loaded, which it starts with
    if name and isinstance(http.runtime.name, Known):
        runtime = msgspec.structs.replace(runtime, state=reported_fact("loaded", given["model"].source))
    return (Subject(runtime=runtime, model=model, run=Run(logged_prompts=logged.prompts)),)


class Requests(NamedTuple):
    """How many requests are answered, and how many wait."""

    running: int
    waiting: int
    source: str


def read_requests(process: Process, url: str) -> Requests:
    """By the connections of its port: it speaks HTTP 1.0, so that each is a request, and closed with its answer."""
    given = FLAGS.settings(["", *arguments_of(words_of(process.command()))], {})
    port, most = urlsplit(url).port, _most_at_once(given).get()
    if port is None or most is None:
        raise LookError(f"{url} and the command line do not tell its port and how many requests it answers at once")
    connected = read_connections(process.system, process.pid, port)
    return Requests(min(connected, most), max(0, connected - most), f"connections in /proc/{process.pid}/net/tcp")


class LoggedRequests(NamedTuple):
    """What its log tells of past requests."""

    longest: Fact[int] = _UNTOLD  # Tokens of the longest conversation; 0 where nobody has asked yet
    kept: Fact[int] = _UNTOLD  # Prompts in its cache
    prompts: Fact[tuple[int, ...]] = _UNTOLD  # How many tokens of each prompt were computed, the last prompt last


def read_logged_requests(process: Process) -> LoggedRequests:
    """A line for every request, its progress, and after each answer one of what is kept."""
    for path in process.outputs():
        log = try_look(None, process.system.read_tail, f"/proc/{process.pid}/root{path}", _LOG_BYTES)
        if log is None:
            continue
        if len(log) < _LOG_BYTES and b'"POST /' not in log:
            return LoggedRequests(reported_fact(0, path), reported_fact(0, path))
        kept = _KEPT.findall(log)
        read = tuple(int(whole) for done, whole in _PROGRESS.findall(log) if done == whole)[-_MOST_PROMPTS:]
        if kept or read:
            return LoggedRequests(
                kept=reported_fact(int(kept[-1]), path) if kept else _UNTOLD,
                prompts=reported_fact(read, path) if read else _UNTOLD,
            )
    return LoggedRequests()


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """What answers at a URL, if it is MLX-LM; it is known by the shape of three answers."""
    subject = _subject(Server(system, url.rstrip("/").removesuffix("/v1"), api_key))
    return None if subject is None else (subject,)


def _subject(server: Server) -> Subject | None:
    if json_if_ok(server.ask(HEALTH)) != {"status": "ok"}:
        return None
    nowhere = server.ask(NOWHERE)  # where llama-server has its settings; others say what is not found in JSON
    answer = server.ask(MODELS)
    models = json_if_ok(answer)
    listed = models.get("data") if isinstance(models, dict) else None
    # its list says nothing of the models but their names
    own = isinstance(listed, list) and all(isinstance(m, dict) and set(m) == _LISTED_FIELDS for m in listed)
    # without a Hugging Face cache on the machine 0.32 dies over its list, after it has said 200
    died = answer.status == OK and not answer.body.strip()
    if nowhere.status == OK or nowhere.body.strip() != b"Not Found" or not (died or own):
        return None
    return subject_of_models(parse_model_list(models, f"{server.url}{MODELS}") or [], server.url)


def subject_of_models(models: list[ListedModel], url: str) -> Subject:
    """What the answers tell."""
    source = f"{url}{MODELS}"
    alone = len(models) == 1
    which = not_supported(_WHICH, "run unslow beside the server, or start it with --model")
    runtime = Runtime().with_facts(
        state=estimated_fact("loaded", f"{source}: the only model") if alone else which,
        name=estimated_fact(NAME, f"the shape of {url}{HEALTH} and {source}"),
        url=reported_fact(url, "given"),
        **dict.fromkeys(("version", "busy_slots", "running_requests"), _UNTOLD),
        context_length=not_supported("MLX-LM's cache grows with the conversation: no length is set"),
        backends=estimated_fact(["MLX"], "the engine of MLX-LM"),
    )
    name = estimated_fact(models[0].name, f"{source}: the only one") if alone else which
    return Subject(runtime=runtime, model=Model(name=name))


def _read_model(process: Process, name: str) -> Model:
    """The model by the files in its folder; its name is the one it was given, since any other could load another."""
    named = reported_fact(name, "command line: --model")
    if not name.startswith("/"):
        return Model(name=named)  # one of the Hugging Face hub
    system, roots = process.system, process.roots()
    model = read_in_roots(roots, lambda root: model_facts(read_checkpoint(system, root + name), name))
    return msgspec.structs.replace(model or Model(), name=named, path=named)


def requested_settings(given: Mapping[str, Setting]) -> Runtime:
    """What the server was told; the defaults are those of mlx_lm/server.py."""
    # Whether prompts of other conversations are kept; zero keeps none
    size = _count(given, "prompts", _USUAL_PROMPTS)
    caches = Known(size.value > 0, size.origin, size.source) if isinstance(size, Known) else size
    cache_bytes: Fact[int] = not_found("--prompt-cache-bytes was not given: the cache has no limit in bytes")
    if limit := given.get("prompt_bytes"):
        found = _SIZE.fullmatch(limit.value.strip())
        amount = round(float(found[1]) * _SCALES[found[2].upper()]) if found else _MOST_BYTES
        sane = amount < _MOST_BYTES
        cache_bytes = reported_fact(amount, limit.source) if sane else failed_fact(f"{limit.source}: not a size")
    facts: dict[str, Any] = {
        "max_sequences": _most_at_once(given),
        "batch": _count(given, "batched_tokens", 2048),
        "cache_ram_bytes": cache_bytes,
        "prompt_cache": caches,
    }
    facts["speculative"] = not_found("--draft-model was not given")
    if draft := given.get("draft_model"):
        facts["speculative"] = reported_fact(draft.value, draft.source)
        facts["draft_tokens"] = _count(given, "draft_tokens", 3)
    return Runtime().with_facts(**facts)


def _most_at_once(given: Mapping[str, Setting]) -> Fact[int]:
    alone = next((given[name] for name in _ALONE if name in given), None)
    return reported_fact(1, alone.source) if alone else _count(given, "sequences", _USUAL_SEQUENCES)


def _count(given: Mapping[str, Setting], name: str, default: int) -> Fact[int]:
    if name not in given:
        return estimated_fact(default, f"default of MLX-LM: no {FLAGS[name].spellings[0]}")
    value, source, _ = given[name]
    sane = value.isdecimal() and value.isascii() and len(value) <= _MOST_DIGITS
    return reported_fact(int(value), source) if sane else failed_fact(f"{source}: not a number")


def _value_of(name: str, value: KnobSetting, _wanted: ChangeRequest) -> Words:
    return Words((name,), () if value is None else (FLAGS[name].spellings[0], str(value)))


def _at_once(value: KnobSetting, wanted: ChangeRequest) -> Answer:
    """Several at once need --decode-concurrency, and nothing that rules batches out."""
    words = _value_of("sequences", value, wanted)
    return words._replace(names=(*words.names, *_ALONE)) if value and value != 1 else words


_TURNS: Mapping[Knob, Turn] = {
    Knob.PARALLEL: _at_once,
    Knob.BATCH: partial(_value_of, "batched_tokens"),
    Knob.SPECULATIVE: lambda value, _wanted: Words(
        ("draft_model",),
        ("--draft-model", str(value)) if value and value != "none" else (),
        missing=missing_draft(value),
    ),
    Knob.PROMPT_CACHE: lambda value, wanted: _value_of(
        "prompts", (_USUAL_PROMPTS if value else 0) if isinstance(value, bool) else value, wanted
    ),
    Knob.QUANT: lambda value, _wanted: Advice(
        [by_hand(f"give `--model` a repository that holds this model in {value or 'fewer bits'}")]
    ),
    Knob.VERSION: advice("pip install --upgrade mlx-lm"),
}
_PROGRAM = Program(
    NAME,
    _TURNS,
    FLAGS,
    bare=lambda at_hand: [
        at_hand.program or "mlx_lm.server",
        *(["--model", at_hand.checkpoint] if at_hand.checkpoint else []),
    ],
    no_model="add `--model MODEL`: the model is unknown",
)
commands_for = _PROGRAM.commands_for

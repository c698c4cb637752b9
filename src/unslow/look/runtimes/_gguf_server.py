"""One llama-server as a subject: what it answers, laid over its command line, its log and its model file."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import (
    NOT_LOOKED,
    Absence,
    Fact,
    Known,
    Origin,
    Unknown,
    estimated,
    failed,
    first_known,
    not_found,
    not_supported,
    reported,
)
from unslow.look import server_answers
from unslow.look.command_line import Setting, is_absolute_path
from unslow.look.contradictions import contradictions
from unslow.look.gguf_server_flags import parse_settings, without_secrets
from unslow.look.logs.llama_cpp.start_lines import parse_file_type
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.openai_api import LOCKED, OK, Server
from unslow.look.processes import Process, words_of
from unslow.look.runtimes._gguf_process import absolute_path, front_of, read_api_key, read_server_log, url_of
from unslow.look.runtimes._gguf_settings import (
    AUTOMATIC_SLOTS,
    FLASH_ATTENTION_TAKES_A_VALUE,
    build_number,
    oldest_possible,
    requested_settings,
    with_defaults,
)
from unslow.look.runtimes._given_settings import is_not_given
from unslow.look.runtimes._process import read_in_roots, resident_bytes
from unslow.look.server_answers import Metrics, count_fact, missing_field, text_fact
from unslow.look.system import LookError, System, unknown
from unslow.look.system.http import is_local_url

# llama-server's own answers: /health, /props, /v1/models, /slots, /metrics.
# Each may be missing, locked, switched off, cut short or of another shape; then it is unknown, with the reason. None of
# them holds the layers, the split of memory, the cache type or the threads: those are in the command line and the log.

LOADING = failed("the model is still loading", "ask again once it is loaded")
KEY_REFUSED = failed("the server refuses the key that was given", "give the right one with --api-key")
_REASONS = {
    401: failed("the server wants an API key", "give the key"),
    403: failed("the server refuses this key", "give the right key"),
    404: not_found("the server does not know this address"),
    501: not_supported("switched off in this server", "start llama-server with --metrics and without --no-slots"),
    503: LOADING,
}


class Answers(NamedTuple):
    """What the server said to each question: JSON, text for the metrics, or why not."""

    health: Any
    props: Any
    models: Any
    slots: Any
    metrics: Any


def read_answers(system: System, url: str, api_key: str = "", query: str = "") -> Answers:
    """Ask a server everything that costs it nothing; `query` goes with each question, as a router wants it."""
    server = Server(system, url, api_key)
    health = _ask(server, "/health")
    if isinstance(health, Unknown) and health not in (*_REASONS.values(), KEY_REFUSED):
        return Answers(health, health, health, health, health)  # nobody there: one wait is enough
    props = _ask(server, f"/props{query}")
    models = _ask(server, "/v1/models")
    if isinstance(props, dict) and props.get("is_sleeping") is True:
        # these questions would wake it, and it loads its model again
        quiet = Unknown("the server sleeps, and asking would wake it", absence=Absence.NOT_LOOKED)
        return Answers(health, props, models, quiet, quiet)
    if is_router(props):
        quiet = not_supported("this is a router: its models run in servers of their own")
        return Answers(health, props, models, quiet, quiet)
    slots = _ask(server, f"/slots{query}")
    # reading /metrics resets the gauges that other scrapers average; counters, which are used here, are not touched
    metrics = _ask(server, f"/metrics{query}", text=True)
    return Answers(health, props, models, slots, metrics)


def is_router(props: Any) -> bool:
    """Whether /props is that of a router, which has no model of its own."""
    return isinstance(props, dict) and props.get("role") == "router"


def _ask(server: Server, path: str, *, text: bool = False) -> Any:
    try:
        answer = server.ask(path)
        if answer.status in LOCKED and server.api_key:
            return KEY_REFUSED
        if answer.status != OK:
            return _REASONS.get(answer.status, failed(f"{path} answered {answer.status}"))
        return answer.body.decode("utf-8", "replace") if text else answer.json()
    except LookError as error:
        return unknown(error)


# llama-server's /metrics: what it has counted since it started.
# Its gauges are averages between two readers and tell little; counters tell the same to everybody.

ENOUGH_TOKENS = 50  # fewer say more of first tokens than of speed
_PREFIX = "llamacpp:"
_TOLD = (
    "busy_slots", "deferred_requests", "longest_sequence", "decode_tokens_per_s", "prefill_tokens_per_s",
    "prefix_hit_rate", "draft_acceptance",
)  # fmt: skip


def parse_metrics(text: Any, source: str) -> Runtime:
    """The facts of an answer; one that is not there is given as Unknown, and so are its facts."""
    if not isinstance(text, str):
        why = text if isinstance(text, Unknown) else failed(f"{source} holds no metrics")
        untold: dict[str, Any] = dict.fromkeys(_TOLD, why)
        return Runtime(**untold)
    metrics = server_answers.parse_metrics(text, source, _PREFIX)
    cached, computed = (metrics.total(f"{_PREFIX}prompt_tokens_{part}total") for part in ("cached_", ""))
    prompts = cached.value_or(0.0) + computed.value_or(0.0)
    hits: Fact[float] = not_found(f"{metrics.source} has counted too few prompt_tokens_cached_total")
    if isinstance(cached, Known) and prompts >= ENOUGH_TOKENS:  # older builds don't count it
        hits = estimated(cached.value / prompts, cached.source)
    drafted, accepted = (f"{_PREFIX}spec_decode_num_{name}_tokens_total" for name in ("draft", "accepted"))
    acceptance = metrics.ratio(accepted, drafted, ENOUGH_TOKENS)
    if acceptance.value_or(0.0) > 1:
        acceptance = not_found(f"{metrics.source} has accepted more than was drafted")
    return Runtime(
        busy_slots=metrics.whole(f"{_PREFIX}requests_processing"),
        deferred_requests=metrics.whole(f"{_PREFIX}requests_deferred"),
        longest_sequence=metrics.whole(f"{_PREFIX}n_tokens_max"),
        decode_tokens_per_s=_rate(metrics, "tokens_predicted_total", "tokens_predicted_seconds_total"),
        prefill_tokens_per_s=_rate(metrics, "prompt_tokens_total", "prompt_seconds_total"),
        prefix_hit_rate=hits,
        draft_acceptance=acceptance,
    )


def _rate(metrics: Metrics, tokens: str, seconds: str) -> Fact[float]:
    """Tokens by seconds; the server counts the first token of each answer too, which costs no decode step."""
    if metrics.total(f"{_PREFIX}{tokens}").value_or(0.0) < ENOUGH_TOKENS:
        return not_found(f"{metrics.source} has counted too few {_PREFIX}{tokens}")
    return metrics.ratio(f"{_PREFIX}{tokens}", f"{_PREFIX}{seconds}", 0)


def subject_of(answers: Answers, source: Mapping[str, str]) -> Subject:
    """The facts of all answers together; `source` names each of them."""
    told = parse_props(answers.props, source["props"])
    props, listed = told.runtime, parse_models(answers.models, source["models"])
    slots = parse_slots(answers.slots, source["slots"])
    metrics = parse_metrics(answers.metrics, source["metrics"])
    longest = [fact for fact in (metrics.longest_sequence, slots.longest_sequence) if isinstance(fact, Known)]
    runtime = msgspec.structs.replace(
        metrics,
        name=props.name,
        version=props.version,
        state=first_known(props.state, parse_health(answers.health, source["health"])),
        slots=first_known(props.slots, slots.slots),
        context_per_slot=first_known(props.context_per_slot, slots.context_per_slot),
        busy_slots=first_known(slots.busy_slots, metrics.busy_slots),
        longest_sequence=max(longest, key=lambda fact: fact.value) if longest else metrics.longest_sequence,
    )
    model = msgspec.structs.replace(
        listed,
        name=first_known(told.model.name, listed.name),
        path=told.model.path,
        quant=first_known(told.model.quant, listed.quant),
    )
    return Subject(runtime=runtime, model=model)


def parse_health(health: Any, source: str) -> Fact[Any]:
    """Loaded or loading; an answer of another kind tells nothing of the model."""
    if isinstance(health, Unknown):
        return reported("loading", source) if health == LOADING else health
    status = text_fact(health, source, "status")
    return reported("loaded", source) if status.value_or("") == "ok" else failed(f"{source} did not say that it is ok")


def parse_props(props: Any, source: str) -> Subject:
    """Slots, context of each, build and model file."""
    if is_router(props):
        why = not_supported(
            "this is a router: its models run in servers of their own", "look at the server of one model"
        )
        runtime = Runtime(name=reported("llama.cpp", source), slots=why, context_per_slot=why, state=why)
        return Subject(runtime=runtime, model=Model(path=why, name=why))
    path = text_fact(props, source, "model_path")
    quant = text_fact(props, source, "model_ftype")
    alias = first_known(text_fact(props, source, "model_alias"), path)
    name: Fact[str] = missing_field(props, source, "settings of llama.cpp")
    state: Fact[Any] = name
    if isinstance(props, dict) and "default_generation_settings" in props:
        # a server that knows its settings has loaded its model, or has put it away for now
        name = reported("llama.cpp", source)
        state = reported("asleep" if props.get("is_sleeping") is True else "loaded", source)
    runtime = Runtime(
        name=name,
        version=text_fact(props, source, "build_info"),
        state=state,
        slots=count_fact(props, source, "total_slots"),
        context_per_slot=count_fact(props, source, "default_generation_settings", "n_ctx"),
    )
    model = Model(
        path=path,
        name=reported(PurePath(alias.value).name, source) if isinstance(alias, Known) else alias,
        quant=reported(parse_file_type(quant.value), source) if isinstance(quant, Known) else quant,
    )
    return Subject(runtime=runtime, model=model)


def parse_models(models: Any, source: str) -> Model:
    """Exact size, parameters and shape of the first model."""
    quant = text_fact(models, source, "data", 0, "meta", "ftype")
    return Model(
        name=text_fact(models, source, "data", 0, "id"),
        quant=reported(parse_file_type(quant.value), source) if isinstance(quant, Known) else quant,
        parameters=count_fact(models, source, "data", 0, "meta", "n_params"),
        weights_bytes=count_fact(models, source, "data", 0, "meta", "size"),
        context_trained=count_fact(models, source, "data", 0, "meta", "n_ctx_train"),
        width=count_fact(models, source, "data", 0, "meta", "n_embd"),
        vocabulary=count_fact(models, source, "data", 0, "meta", "n_vocab"),
    )


def parse_slots(slots: Any, source: str) -> Runtime:
    """How many slots there are, how many work, and the longest sequence they hold."""
    if not isinstance(slots, list) or not all(isinstance(slot, dict) for slot in slots):
        why = missing_field(slots, source, "a list of slots")
        return Runtime(slots=why, busy_slots=why, longest_sequence=why, context_per_slot=why)
    lengths = [count_fact(slot, source, "n_prompt_tokens").value_or(0) for slot in slots]
    return Runtime(
        slots=reported(len(slots), source),
        busy_slots=reported(sum(slot.get("is_processing") is True for slot in slots), source),
        longest_sequence=reported(max(lengths, default=0), source),
        context_per_slot=count_fact(slots, source, 0, "n_ctx"),
    )


# One answer from several sources.
# The log tells what was decided, the running server what holds now, the command line what was asked for.

_ASKED = ("gpu_layers_set", "context_set", "fit", "fit_margin_bytes", "tensor_overrides", "device_set")
_CURRENT = ("state", "version", "slots", "context_per_slot")


def settled_subject(asked: Runtime, http: Subject, log: Subject, at_least: Fact[int] = NOT_LOOKED) -> Subject:
    """The deciding value of every fact, and where the sources contradict one another.

    `at_least` is the oldest build that the server can be, for one that has no number.
    """
    runtime = overlaid(overlaid(asked, http.runtime), log.runtime)
    changes: dict[str, Any] = {
        **{name: first_known(getattr(http.runtime, name), getattr(runtime, name)) for name in _CURRENT},
        **{name: first_known(getattr(asked, name), getattr(runtime, name)) for name in _ASKED},
    }
    build = build_number(changes["version"]) or at_least.value_or(0)
    runtime = _completed(msgspec.structs.replace(runtime, **changes), asked, log.runtime, build)
    model = exact_model(http.model, log.model)
    sources = [("asked for", asked), ("decided", log.runtime), ("reported", http.runtime)]
    found = contradictions(sources, model, Machine())
    if runtime.tensor_overrides.value_or([]):
        # with tensors sent to the host by name, what lies there is more than the token table
        model = msgspec.structs.replace(model, token_table_bytes=NOT_LOOKED)
    return Subject(runtime=runtime, model=model, contradictions=found)


def _completed(runtime: Runtime, asked: Runtime, log: Runtime, build: int) -> Runtime:
    """What follows from the rest where nobody says it, as on a server that hides its load lines."""
    follows = with_defaults(asked, runtime.version, build)
    uncounted = is_not_given(asked.slots)
    if build >= AUTOMATIC_SLOTS and is_not_given(asked.kv_unified) and (uncounted or isinstance(asked.slots, Known)):
        # slots that nobody counted share one cache; those that somebody counted have a part each
        source = f"default of llama.cpp since b{AUTOMATIC_SLOTS} {'without' if uncounted else 'with'} -np"
        follows["kv_unified"] = estimated(uncounted, source)
    heard = isinstance(log.name, Known) and log.state.value_or("") == "loaded"
    if heard and build >= FLASH_ATTENTION_TAKES_A_VALUE and is_not_given(asked.flash_attention):
        # left to itself it is on; that it can't be is a warning, which no verbosity hides
        source = "left to llama.cpp, and its log does not warn that it is off"
        follows["flash_attention"] = estimated(value=True, source=source)
    if is_not_given(asked.threads_batch) and isinstance(runtime.threads, Known):
        source = f"as many as threads ({runtime.threads.source}): no -tb"
        follows["threads_batch"] = estimated(runtime.threads.value, source)
    known = {name: first_known(getattr(runtime, name), fact) for name, fact in follows.items()}
    runtime = msgspec.structs.replace(runtime, **known)
    per_slot, unified = runtime.context_per_slot, runtime.kv_unified
    length: Fact[int] = NOT_LOOKED
    if isinstance(per_slot, Known) and isinstance(unified, Known):
        # one cache shared by all slots, or a part for each
        slots = 1 if unified.value else runtime.slots.value_or(0)
        source = f"{per_slot.source}: context of a slot, by {unified.source}"
        length = estimated(per_slot.value * slots, source) if slots else NOT_LOOKED
    length = first_known(runtime.context_length, length)
    batch = _at_most(runtime.batch, length)
    ubatch = _at_most(runtime.ubatch, batch)
    return msgspec.structs.replace(runtime, context_length=length, batch=batch, ubatch=ubatch)


def _at_most(batch: Fact[int], limit: Fact[int]) -> Fact[int]:
    """No batch is longer than the context, and no part of it longer than the batch."""
    if not (isinstance(batch, Known) and isinstance(limit, Known)) or batch.value <= limit.value:
        return batch
    return estimated(limit.value, f"{batch.source}, and no more than {limit.value} ({limit.source})")


def exact_model(base: Model, over: Model) -> Model:
    """`over` on top, except where it only estimates what `base` was told."""
    keep: dict[str, Any] = {}
    for name in over.__struct_fields__:
        told, guess = getattr(base, name), getattr(over, name)
        if isinstance(told, Known) and isinstance(guess, Known) and guess.origin is Origin.ESTIMATED:
            keep[name] = told
    return msgspec.structs.replace(overlaid(base, over), **keep)


MOST_PROMPTS = 8


def read_server(system: System, target: Process | str, api_key: str = "") -> Subject:
    """Everything that can be seen of a server, by its process or by its URL alone."""
    if isinstance(target, str):
        address = target.rstrip("/")
        subject = http_subject(read_answers(system, address, api_key), reported(address, "given"))
        return with_file(system, subject, [""]) if is_local_url(address) else subject
    # each is read once: it may change, and a recording has every answer
    resident, command = resident_bytes(target), target.command()
    environment, folder = target.environment(), target.folder()
    settings = parse_settings(words_of(command), environment.value_or({}))
    url, key = url_of(settings), api_key or read_api_key(target)
    answers = read_answers(system, url.value, key) if isinstance(url, Known) else Answers(url, url, url, url, url)
    http = _own(http_subject(answers, url), settings)
    log_path, log = read_server_log(target, settings, folder)
    asked = requested_settings(settings, complete=isinstance(environment, Known))
    logged = Subject(runtime=log.runtime, model=log.model)
    subject = settled_subject(asked, http, logged, oldest_possible(answers.props))
    shown = Runtime(
        name=reported("llama.cpp", f"/proc/{target.pid}/comm"),
        pid=reported(target.pid, "/proc"),
        url=http.runtime.url,
        command=reported(without_secrets(command.value), command.source) if isinstance(command, Known) else command,
        environment=environment,
        log_path=log_path,
        resident_bytes=resident,
        container=target.container(),
        front=front_of(target, environment),
    )
    written = settings["model"].value if "model" in settings else log.model.path.value_or("")
    path = absolute_path(written, folder) if written else not_found("the command line names no model file")
    runtime, model = overlaid(subject.runtime, shown), overlaid(subject.model, Model(path=path))
    done: Fact[Any] = log.run.completions
    if isinstance(done, Known):  # requests of others, so that their speeds are no measurement
        done = reported(tuple(each.prompt_tokens for each in done.value[-MOST_PROMPTS:]), done.source)
    run = Run(load_s=log.run.load_s, logged_prompts=done)
    whole = msgspec.structs.replace(subject, runtime=runtime, model=model, run=run)
    return with_file(system, whole, target.roots())


def http_subject(answers: Answers, url: Fact[str]) -> Subject:
    """What a server's answers tell."""
    names = {"health": "/health", "props": "/props", "models": "/v1/models", "slots": "/slots", "metrics": "/metrics"}
    subject = subject_of(answers, {name: url.value_or("") + path for name, path in names.items()})
    return msgspec.structs.replace(subject, runtime=msgspec.structs.replace(subject.runtime, url=url))


def _own(http: Subject, settings: dict[str, Setting]) -> Subject:
    """Nothing, where the model that answers is not the model that was started: another network has the same port."""
    started, answers = settings.get("model"), http.model.path
    if started is None or isinstance(answers, Unknown):
        return http
    if started.value.rpartition("/")[2] == answers.value.rpartition("/")[2]:
        return http
    why = not_found(f"another server, with {answers.value}, answers at {http.runtime.url.value_or('this port')}")
    return Subject(runtime=Runtime(url=why, state=why))


def with_file(system: System, subject: Subject, roots: Sequence[str]) -> Subject:
    """The header of the model file has the last word on the model; a container has a root of its own."""
    path = subject.model.path
    if isinstance(path, Unknown) or not is_absolute_path(path.value):
        return subject
    model = read_in_roots(roots, lambda root: model_facts(read_gguf(system, root + path.value), path.value))
    if model is None:
        return subject
    model = msgspec.structs.replace(model, path=path)
    return msgspec.structs.replace(subject, model=overlaid(subject.model, model))

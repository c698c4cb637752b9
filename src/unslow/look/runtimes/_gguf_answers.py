"""What a llama-server answers: /health, /props, /v1/models, /slots, /metrics.

Each may be missing, locked, switched off, cut short or of another shape; then it is unknown, with the reason. None of
them holds the layers, the split of memory, the cache type or the threads: those are in the command line and the log.
"""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

import msgspec

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import (
    NOT_LOOKED,
    Absence,
    Fact,
    Known,
    Unknown,
    estimated_fact,
    failed_fact,
    first_known,
    not_found,
    not_supported,
    reported_fact,
)
from unslow.look import server_answers
from unslow.look.logs.llama_cpp.start_lines import parse_file_type
from unslow.look.openai_api import LOCKED, OK, Server
from unslow.look.server_answers import Metrics, count_fact, missing_field, text_fact
from unslow.look.system import LookError, System, unknown

LOADING = failed_fact("the model is still loading", "ask again once it is loaded")
KEY_REFUSED = failed_fact("the server refuses the key that was given", "give the right one with --api-key")
_REASONS = {
    401: failed_fact("the server requires an API key", "give the key"),
    403: failed_fact("the server refuses this key", "give the right key"),
    404: not_found("the server does not know this address"),
    501: not_supported("switched off in this server", "start llama-server with --metrics and without --no-slots"),
    503: LOADING,
}
ENOUGH_TOKENS = 50  # fewer say more of first tokens than of speed
_METRICS_PREFIX = "llamacpp:"
_METRICS_FACTS = (
    "busy_slots", "deferred_requests", "longest_sequence", "decode_tokens_per_s", "prefill_tokens_per_s",
    "prefix_hit_rate", "draft_acceptance",
)  # fmt: skip


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
        return Answers(health, health, health, health, health)  # nothing there: one wait is enough
    props = _ask(server, f"/props{query}")
    models = _ask(server, "/v1/models")
    if isinstance(props, dict) and props.get("is_sleeping") is True:
        # these questions would wake it, and it loads its model again
        quiet = Unknown("the server sleeps, and asking would wake it", absence=Absence.NOT_LOOKED)
        return Answers(health, props, models, quiet, quiet)
    if is_router(props):
        quiet = not_supported("this is a router: each model runs in its own server")
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
            return _REASONS.get(answer.status, failed_fact(f"{path} answered {answer.status}"))
        return answer.body.decode("utf-8", "replace") if text else answer.json()
    except LookError as error:
        return unknown(error)


def http_subject(answers: Answers, url: Fact[str]) -> Subject:
    """What a server's answers tell."""
    names = {"health": "/health", "props": "/props", "models": "/v1/models", "slots": "/slots", "metrics": "/metrics"}
    return subject_of(answers, {name: url.value_or("") + path for name, path in names.items()}, url)


def subject_of(answers: Answers, source: Mapping[str, str], url: Fact[str] = NOT_LOOKED) -> Subject:
    """The facts of all answers together; `source` names each of them."""
    told = parse_props(answers.props, source["props"])
    props, listed = told.runtime, parse_models(answers.models, source["models"])
    slots = parse_slots(answers.slots, source["slots"])
    metrics = parse_metrics(answers.metrics, source["metrics"])
    lengths = (metrics.history.longest_sequence, slots.history.longest_sequence)
    longest = [fact for fact in lengths if isinstance(fact, Known)]
    # an answer of /health of another kind tells nothing of the model
    state: Fact[Any] = answers.health
    if state == LOADING:
        state = reported_fact("loading", source["health"])
    elif not isinstance(state, Unknown):
        is_ok = text_fact(state, source["health"], "status").value_or("") == "ok"
        unwell = failed_fact(f"{source['health']} did not report ok")
        state = reported_fact("loaded", source["health"]) if is_ok else unwell
    runtime = metrics.with_facts(
        url=url,
        name=props.name,
        version=props.version,
        state=first_known(props.state, state),
        slots=first_known(props.scheduling.slots, slots.scheduling.slots),
        context_per_slot=first_known(props.context.per_slot, slots.context.per_slot),
        busy_slots=first_known(slots.scheduling.busy_slots, metrics.scheduling.busy_slots),
        longest_sequence=max(longest, key=lambda fact: fact.value) if longest else metrics.history.longest_sequence,
    )
    model = msgspec.structs.replace(
        listed,
        name=first_known(told.model.name, listed.name),
        path=told.model.path,
        quant=first_known(told.model.quant, listed.quant),
    )
    return Subject(runtime=runtime, model=model)


def parse_props(props: Any, source: str) -> Subject:
    """Slots, context of each, build and model file."""
    if is_router(props):
        why = not_supported("this is a router: each model runs in its own server", "look at the server of one model")
        name = reported_fact("llama.cpp", source)
        runtime = Runtime().with_facts(name=name, slots=why, context_per_slot=why, state=why)
        return Subject(runtime=runtime, model=Model(path=why, name=why))
    path = text_fact(props, source, "model_path")
    alias = first_known(text_fact(props, source, "model_alias"), path)
    state: Fact[Any] = missing_field(props, source, "settings of llama.cpp")
    if isinstance(props, dict) and "default_generation_settings" in props:
        # a server that knows its settings has loaded its model, or has put it away for now
        state = reported_fact("asleep" if props.get("is_sleeping") is True else "loaded", source)
    runtime = Runtime().with_facts(
        name=reported_fact("llama.cpp", source) if isinstance(state, Known) else state,
        version=text_fact(props, source, "build_info"),
        state=state,
        slots=count_fact(props, source, "total_slots"),
        context_per_slot=count_fact(props, source, "default_generation_settings", "n_ctx"),
    )
    named = reported_fact(PurePath(alias.value).name, source) if isinstance(alias, Known) else alias
    return Subject(runtime=runtime, model=Model(path=path, name=named, quant=_quant(props, source, "model_ftype")))


def parse_models(models: Any, source: str) -> Model:
    """Exact size, parameters and shape of the first model."""
    return Model(
        name=text_fact(models, source, "data", 0, "id"),
        quant=_quant(models, source, "data", 0, "meta", "ftype"),
        parameters=count_fact(models, source, "data", 0, "meta", "n_params"),
        weights_bytes=count_fact(models, source, "data", 0, "meta", "size"),
        context_trained=count_fact(models, source, "data", 0, "meta", "n_ctx_train"),
        width=count_fact(models, source, "data", 0, "meta", "n_embd"),
        vocabulary=count_fact(models, source, "data", 0, "meta", "n_vocab"),
    )


def _quant(answer: Any, source: str, *keys: str | int) -> Fact[str]:
    quant = text_fact(answer, source, *keys)
    return reported_fact(parse_file_type(quant.value), source) if isinstance(quant, Known) else quant


def parse_slots(slots: Any, source: str) -> Runtime:
    """How many slots there are, how many work, and the longest sequence they hold."""
    if not isinstance(slots, list) or not all(isinstance(slot, dict) for slot in slots):
        why = missing_field(slots, source, "a list of slots")
        return Runtime().with_facts(slots=why, busy_slots=why, longest_sequence=why, context_per_slot=why)
    lengths = [count_fact(slot, source, "n_prompt_tokens").value_or(0) for slot in slots]
    return Runtime().with_facts(
        slots=reported_fact(len(slots), source),
        busy_slots=reported_fact(sum(slot.get("is_processing") is True for slot in slots), source),
        longest_sequence=reported_fact(max(lengths, default=0), source),
        context_per_slot=count_fact(slots, source, 0, "n_ctx"),
    )


def parse_metrics(text: Any, source: str) -> Runtime:
    """What /metrics has counted since the server started; where it is not there, why, for each of its facts.

    Its gauges are averages between two readers and tell little; counters tell the same to everybody.
    """
    if not isinstance(text, str):
        why = text if isinstance(text, Unknown) else failed_fact(f"{source} holds no metrics")
        untold: dict[str, Any] = dict.fromkeys(_METRICS_FACTS, why)
        return Runtime().with_facts(**untold)
    metrics = server_answers.parse_metrics(text, source, _METRICS_PREFIX)
    cached, computed = (metrics.total(f"{_METRICS_PREFIX}prompt_tokens_{part}total") for part in ("cached_", ""))
    prompts = cached.value_or(0.0) + computed.value_or(0.0)
    hits: Fact[float] = not_found(f"{metrics.source} has counted too few prompt_tokens_cached_total")
    if isinstance(cached, Known) and prompts >= ENOUGH_TOKENS:  # older builds do not count it
        hits = estimated_fact(cached.value / prompts, cached.source)
    drafted, accepted = (f"{_METRICS_PREFIX}spec_decode_num_{name}_tokens_total" for name in ("draft", "accepted"))
    acceptance = metrics.ratio(accepted, drafted, ENOUGH_TOKENS)
    if acceptance.value_or(0.0) > 1:
        acceptance = not_found(f"{metrics.source} has accepted more than was drafted")
    return Runtime().with_facts(
        busy_slots=metrics.integer(f"{_METRICS_PREFIX}requests_processing"),
        deferred_requests=metrics.integer(f"{_METRICS_PREFIX}requests_deferred"),
        longest_sequence=metrics.integer(f"{_METRICS_PREFIX}n_tokens_max"),
        decode_tokens_per_s=_rate(metrics, "tokens_predicted_total", "tokens_predicted_seconds_total"),
        prefill_tokens_per_s=_rate(metrics, "prompt_tokens_total", "prompt_seconds_total"),
        prefix_hit_rate=hits,
        draft_acceptance=acceptance,
    )


def _rate(metrics: Metrics, tokens: str, seconds: str) -> Fact[float]:
    """Tokens by seconds; the server counts the first token of each answer too, which costs no decode step."""
    if metrics.total(f"{_METRICS_PREFIX}{tokens}").value_or(0.0) < ENOUGH_TOKENS:
        return not_found(f"{metrics.source} has counted too few {_METRICS_PREFIX}{tokens}")
    return metrics.ratio(f"{_METRICS_PREFIX}{tokens}", f"{_METRICS_PREFIX}{seconds}", 0)

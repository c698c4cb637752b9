"""What llama-server's answers mean; an answer that is not there is given as Unknown, and so are its facts."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, failed, first_known, not_supported, reported
from unslow.look.json_fields import count, missing, text
from unslow.look.llama_server.http import LOADING, Answers, is_router
from unslow.look.llama_server.metrics import parse_metrics
from unslow.look.logs.llama_cpp.model import parse_file_type


def subject_of(answers: Answers, source: Mapping[str, str]) -> Subject:
    """The facts of all answers together; `source` names each of them."""
    props = parse_props(answers.props, source["props"])
    return Subject(
        runtime=_runtime(answers, props.runtime, source),
        model=_model(props.model, parse_models(answers.models, source["models"])),
    )


def _runtime(answers: Answers, props: Runtime, source: Mapping[str, str]) -> Runtime:
    slots = parse_slots(answers.slots, source["slots"])
    metrics = parse_metrics(answers.metrics, source["metrics"])
    longest = [fact for fact in (metrics.longest_sequence, slots.longest_sequence) if isinstance(fact, Known)]
    return Runtime(
        name=props.name,
        version=props.version,
        state=first_known(props.state, parse_health(answers.health, source["health"])),
        slots=first_known(props.slots, slots.slots),
        context_per_slot=first_known(props.context_per_slot, slots.context_per_slot),
        busy_slots=first_known(slots.busy_slots, metrics.busy_slots),
        deferred_requests=metrics.deferred_requests,
        longest_sequence=max(longest, key=lambda fact: fact.value) if longest else metrics.longest_sequence,
        decode_tokens_per_s=metrics.decode_tokens_per_s,
        prefill_tokens_per_s=metrics.prefill_tokens_per_s,
        prefix_hit_rate=metrics.prefix_hit_rate,
        draft_acceptance=metrics.draft_acceptance,
    )


def _model(props: Model, listed: Model) -> Model:
    name, quant = first_known(props.name, listed.name), first_known(props.quant, listed.quant)
    return msgspec.structs.replace(listed, name=name, path=props.path, quant=quant)


def parse_health(health: Any, source: str) -> Fact[Any]:
    """Loaded or loading; an answer of another kind tells nothing of the model."""
    if isinstance(health, Unknown):
        return reported("loading", source) if health == LOADING else health
    status = text(health, source, "status")
    return reported("loaded", source) if status.value_or("") == "ok" else failed(f"{source} did not say that it is ok")


def parse_props(props: Any, source: str) -> Subject:
    """Slots, context of each, build and model file."""
    if is_router(props):
        return _router(source)
    path = text(props, source, "model_path")
    quant = text(props, source, "model_ftype")
    alias = first_known(text(props, source, "model_alias"), path)
    runtime = Runtime(
        name=reported("llama.cpp", source) if _is_props(props) else missing(props, source, "settings of llama.cpp"),
        version=text(props, source, "build_info"),
        state=_props_state(props, source),
        slots=count(props, source, "total_slots"),
        context_per_slot=count(props, source, "default_generation_settings", "n_ctx"),
    )
    model = Model(
        path=path,
        name=reported(PurePath(alias.value).name, source) if isinstance(alias, Known) else alias,
        quant=reported(parse_file_type(quant.value), source) if isinstance(quant, Known) else quant,
    )
    return Subject(runtime=runtime, model=model)


def _props_state(props: Any, source: str) -> Fact[Any]:
    """A server that knows its settings has loaded its model, or has put it away for now."""
    if not _is_props(props):
        return missing(props, source, "settings of llama.cpp")
    return reported("asleep" if props.get("is_sleeping") is True else "loaded", source)


def _is_props(props: Any) -> bool:
    return isinstance(props, dict) and "default_generation_settings" in props


def _router(source: str) -> Subject:
    why = not_supported("this is a router: its models run in servers of their own", "look at the server of one model")
    runtime = Runtime(name=reported("llama.cpp", source), slots=why, context_per_slot=why, state=why)
    return Subject(runtime=runtime, model=Model(path=why, name=why))


def parse_models(models: Any, source: str) -> Model:
    """Exact size, parameters and shape of the first model."""
    first = ("data", 0)
    quant = text(models, source, *first, "meta", "ftype")
    return Model(
        name=text(models, source, *first, "id"),
        quant=reported(parse_file_type(quant.value), source) if isinstance(quant, Known) else quant,
        parameters=count(models, source, *first, "meta", "n_params"),
        weights_bytes=count(models, source, *first, "meta", "size"),
        context_trained=count(models, source, *first, "meta", "n_ctx_train"),
        width=count(models, source, *first, "meta", "n_embd"),
        vocabulary=count(models, source, *first, "meta", "n_vocab"),
    )


def parse_slots(slots: Any, source: str) -> Runtime:
    """How many slots there are, how many work, and the longest sequence they hold."""
    if not isinstance(slots, list) or not all(isinstance(slot, dict) for slot in slots):
        why = missing(slots, source, "a list of slots")
        return Runtime(slots=why, busy_slots=why, longest_sequence=why, context_per_slot=why)
    lengths = [count(slot, source, "n_prompt_tokens").value_or(0) for slot in slots]
    return Runtime(
        slots=reported(len(slots), source),
        busy_slots=reported(sum(slot.get("is_processing") is True for slot in slots), source),
        longest_sequence=reported(max(lengths, default=0), source),
        context_per_slot=count(slots, source, 0, "n_ctx"),
    )

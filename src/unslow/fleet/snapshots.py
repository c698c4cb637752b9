"""One snapshot for each member of a fleet, so that the same causes judge it: its model, traffic and earlier self.

The window holds pauses. Means over it are right for what is counted by the second, and wrong for how many requests
share a step: ten at once for a tenth of the time are one on average, and each of them shares its steps with nine
others. How many a request meets is the mean of the squares over the mean; and by Little's law it is never fewer than
the tokens of a second times the seconds between two tokens.
"""

import math
from functools import lru_cache
from typing import Any

import msgspec

from unslow import __version__
from unslow.catalog.models import WellKnown, find_model
from unslow.catalog.quants import find_mix, split_quant
from unslow.catalog.weight_parts import Part, Role, parts_of_shape, storage_of_quant, total_bytes
from unslow.facts.errors import UserError
from unslow.facts.merge import bound_facts
from unslow.facts.model import HfShape, Model
from unslow.facts.run import Earlier, Run, Traffic
from unslow.facts.runtime import IN_BATCHES, Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, estimated_fact, not_found, reported_fact
from unslow.fleet import snapshot_hardware as hardware
from unslow.fleet.member import Member
from unslow.fleet.snapshot_hardware import SOURCE, Readings, host_readings
from unslow.look.runtimes.vllm import cache_facts
from unslow.think.blueprints import made_up, shape_of_blueprint

LABEL_IT = "add a label to its target in the scrape configuration: `model: NAME`"
_LONGEST_NAME = 200
_USUAL_MIX = {"Ollama": "Q4_K_M"}
"""What a name without a quant means to a runtime: the tags of Ollama's library are in this mix."""
_CACHE_INFO = "vllm:cache_config_info"
ENOUGH_TOKENS = 50  # Fewer say more of first tokens than of speed
USUAL_INTERVAL_S = 30.0  # Between two scrapes, where nobody counted them
SLOWER = 1.2
"""Times as long for a token: two windows of one sound server differ by less where as many requests share its steps."""
MORE, FEW = 1.5, 2.0  # Times as many requests at once: more of them slow each other down; and how many do not


def snapshot_of(member: Member, taken_at: str = "") -> Snapshot:
    """What a Prometheus could tell of one engine, its GPUs and its host, as facts."""
    machine = hardware.machine_of(member)
    model = model_named(member.model, member.runtime, member.info.get("unslow_quant", ""))
    engine = Readings(member.engine, member.missing.get("engine", ""))
    facts = _runtime_facts(member, engine)
    cut = hardware.tensor_parallel(member.runtime, machine.gpus.value_or(()), model, facts)
    facts |= hardware.offloaded_layers(member.runtime, machine.gpus, model, share_at_work(engine) or 0.0)
    runtime = Runtime().with_facts(**facts, tensor_parallel=cut)
    subject = Subject(runtime=bound_facts(runtime), model=model, run=bound_facts(_run(member, engine)))
    return Snapshot(unslow_version=__version__, taken_at=taken_at, machine=bound_facts(machine), subjects=(subject,))


def _runtime_facts(member: Member, engine: Readings) -> dict[str, Any]:
    host, places = host_readings(member), engine.count("places")
    facts: dict[str, Fact[Any]] = {
        "name": reported_fact(member.runtime, f"{SOURCE}: its metrics"),
        "version": reported_fact(member.version, SOURCE) if member.version else NOT_LOOKED,
        "running_requests": engine.count("running"),
        "deferred_requests": engine.count("waiting"),
        "kv_usage": engine.share("cache_used"),
        "preemptions": engine.count("preemptions"),
        "prefix_hit_rate": engine.share("prefix_hit_rate"),
        "draft_acceptance": engine.share("draft_acceptance"),
        "context_length": engine.count("context_tokens"),
        "max_sequences" if member.runtime in IN_BATCHES else "slots": places,
        "quota_cpus": host.fact("quota_cpus"),
        "memory_limit_bytes": host.count("memory_limit_bytes"),
        "state": reported_fact("asleep" if engine.value("asleep") else "loaded", engine.source("asleep", "up")),
    }
    capacity = {"kv_capacity_tokens": engine.count("kv_tokens")} if "kv_tokens" in engine else {}
    return facts | capacity | cache_facts(member.info, f"{SOURCE}: {_CACHE_INFO}")


def _run(member: Member, engine: Readings) -> Run:
    whole, host = engine.fact("request_s"), host_readings(member)
    depth = engine.missing("prompt_tokens")
    if "prompt_tokens" in engine:  # on average tokens come behind the prompt and half of the answer
        middle = engine.value("prompt_tokens") + engine.value("answer_tokens") / 2
        depth = engine.estimate(round(middle), "prompt_tokens", "answer_tokens")
    return Run(
        time_to_first_token_s=engine.fact("first_token_s"),
        queue_s=engine.fact("queue_s"),
        request_s=reported_fact((whole.value,), whole.source) if isinstance(whole, Known) else whole,
        depth_tokens=depth,
        cpu_throttled_fraction=host.share("cpu_throttled"),
        gpus=hardware.gpus_under_load(member),
        earlier=earlier_of(member, engine),
        traffic=traffic_of(member, engine),
    )


def traffic_of(member: Member, engine: Readings) -> Fact[Traffic]:
    """The traffic; unknown where nothing tells how many requests were answered."""
    if "running" not in engine and "generated_tokens_per_s" not in engine:
        return engine.missing("running")
    speed, among = speed_of_each(engine), requests_at_once(engine)
    each = speed if among is not None else not_found("batch size while busy not reported")
    prompts, share = engine.fact("prompt_tokens_per_s"), share_at_work(engine)
    if share is not None and "prompt_tokens_per_s" in engine:  # answers wait for prompts only while there are any
        while_at_work = engine.value("prompt_tokens_per_s") / share
        prompts = engine.estimate(while_at_work, "prompt_tokens_per_s", "token_gap_s")
    known = Traffic(
        seconds=member.window_s,
        looks=max(1, round(engine.value("samples", member.window_s / USUAL_INTERVAL_S))),
        running=_running_requests(engine),
        waiting=engine.value("waiting"),
        counts_waiting="waiting" in engine,
        tokens_per_s=engine.fact("generated_tokens_per_s"),
        prompt_tokens_per_s=prompts,
        preemptions=engine.count("preemptions"),
        cache_used=engine.share("cache_used"),  # the mean: its peak need not be when requests waited
        each_tokens_per_s=each,
        each_among=among or 0.0,
    )
    names = ("running", "waiting", "generated_tokens_per_s")
    return reported_fact(known, engine.source(*(name for name in names if name in engine)))


def speed_of_each(engine: Readings) -> Fact[float]:
    """Tokens a second of one request; unknown where too few were generated to tell."""
    counted = engine.value("tokens_counted", math.inf)
    if counted < ENOUGH_TOKENS:
        return not_found(f"too few tokens for a speed: {counted:.0f} generated in the window")
    if engine.value("token_gap_s") > 0:
        return engine.estimate(1 / engine.value("token_gap_s"), "token_gap_s")
    if engine.value("decode_tokens_per_busy_s") > 0:
        return engine.fact("decode_tokens_per_busy_s")
    if engine.value("running", 1.0) == 0 and not engine.value("generated_tokens_per_s"):
        return not_found("no requests in the window")
    return not_found(f"{SOURCE} has no time between tokens for it")


def requests_at_once(engine: Readings) -> float | None:
    """How many a request shares its steps with, itself counted; None where the readings leave that open."""
    if "running_spread" not in engine:
        return None  # a mean alone may be of any number at once, and of pauses
    mean = engine.value("running")
    met = (engine.value("running_spread") ** 2 + mean**2) / mean if mean > 0 else 0.0
    return max(1.0, _requests_generating(engine), met)


def share_at_work(engine: Readings) -> float | None:
    """The part of the window in which it worked; None where nothing tells. Who reads a prompt is at work as well."""
    among = requests_at_once(engine)
    return min(1.0, _running_requests(engine) / among) if among and _requests_generating(engine) else None


def _requests_generating(engine: Readings) -> float:
    """How many generated on average, pauses counted in: by Little's law, whatever the moments of the scrapes missed."""
    speed = speed_of_each(engine)
    return engine.value("generated_tokens_per_s") / speed.value if isinstance(speed, Known) and speed.value else 0.0


def _running_requests(engine: Readings) -> float:
    """The mean; scrapes may miss every one of a few short answers, so no fewer than generated."""
    return max(engine.value("running"), _requests_generating(engine))


def earlier_of(member: Member, engine: Readings) -> Fact[Earlier]:
    """The speed of a request then and now, and whether the load explains the difference."""
    gap = engine.value("token_gap_before_s") if "token_gap_s" in engine else 0.0
    now, then = speed_of_each(engine), 1 / gap if gap > 0 else engine.value("decode_tokens_per_busy_s_before")
    if not then:
        return not_found(f"{SOURCE} has no data on it from the comparison time")
    if not isinstance(now, Known):
        return now
    slower = now.value * SLOWER < then
    # The load, where that is not what it was, or nobody tells
    load, load_then, also = requests_at_once(engine), engine.value("running_before"), ""
    if "running_before" not in engine or load is None:
        also = "earlier load unknown"
    elif load > max(FEW, MORE * load_then):
        also = f"{load:.1f} concurrent requests instead of {load_then:.1f}"
    known = Earlier(
        bench=SOURCE,
        taken_at="",
        decode_tokens_per_s=then,
        now_tokens_per_s=now.value,
        slower=slower,
        version=member.version_before,
        version_now=member.version,
        also_changed=(also,) if slower and also else (),
    )
    read = ("token_gap_s", "token_gap_before_s", "decode_tokens_per_busy_s", "decode_tokens_per_busy_s_before")
    return engine.estimate(known, *read)


@lru_cache(maxsize=4096)  # a fleet of thousands has few models
def model_named(name: str, runtime: str, told_quant: str = "") -> Model:
    """What the catalog has of it; the name alone where nobody knows it. A quant that was told goes first."""
    if not name:
        unnamed = not_found("no label names the model it serves", LABEL_IT)
        return Model(name=unnamed, weights_bytes=unnamed, parameters=unnamed)
    short = name[:_LONGEST_NAME].rstrip("/").rpartition("/")[2] or name
    told = Model(name=reported_fact(short, f"{SOURCE}: model_name"))
    try:
        known = find_model(name[:_LONGEST_NAME])
        quant = told_quant or split_quant(name.rpartition("/")[2])[1]
        numbers = _of_safetensors(known, quant) if runtime in IN_BATCHES else _of_gguf(known, quant, runtime)
    except UserError as error:
        unknown = not_found(f"its model is not in the catalog: {error.message[:200]}")
        return msgspec.structs.replace(told, weights_bytes=unknown, parameters=unknown)
    return msgspec.structs.replace(told, **numbers)


def _of_safetensors(known: WellKnown, quant: str) -> dict[str, Fact[Any]]:
    written = quant or known.published or "BF16"
    shape = shape_of_blueprint(made_up(known, "F16"))
    how = "as reported" if quant else "as published"
    return _facts(known, shape, parts_of_shape(shape, storage_of_quant(written)), written, how)


def _of_gguf(known: WellKnown, quant: str, runtime: str) -> dict[str, Fact[Any]]:
    written = quant or _USUAL_MIX.get(runtime, "")
    if not written:
        raise UserError("quant unknown")
    find_mix(written)
    plan = made_up(known, written.upper().removeprefix("UD-"))
    facts = _facts(known, shape_of_blueprint(plan), [], written, "as reported" if quant else "assumed")
    source = f"the catalog: {known.name} in {written}, by its tensors"
    return facts | {"weights_bytes": estimated_fact(plan.weights_bytes, source)}


def _facts(known: WellKnown, shape: HfShape, parts: list[Part], quant: str, how: str) -> dict[str, Fact[Any]]:
    source = f"the catalog: {known.name} in {quant}, {how}"
    roles = (Role.EMBEDDING, Role.OUTPUT, Role.EXPERTS)
    table, output, experts = (sum(part.bytes for part in parts if part.role is role) for role in roles)
    heads, key, value = shape.kv_heads, shape.key_length, shape.value_length
    if shape.kv_rank:  # a latent, which all heads share
        heads, key, value = 1, shape.kv_rank + shape.rope_length, 0
    numbers: dict[str, Any] = {
        "architecture": known.architecture, "quant": quant, "parameters": known.parameters, "layers": shape.layers,
        "width": shape.width, "vocabulary": shape.vocabulary, "context_trained": known.shape.context_trained,
        "heads": shape.heads, "kv_heads": heads, "key_length": key, "value_length": value, "experts": shape.experts,
        "experts_used": shape.experts_used, "expert_width": shape.expert_width, "output_tied": shape.tied,
    }  # fmt: skip
    if parts:
        numbers |= {"weights_bytes": total_bytes(parts), "token_table_bytes": table, "output_bytes": output or table}
        numbers |= {"expert_bytes": experts} if experts else {}
    return {name: estimated_fact(number, source) for name, number in numbers.items()}

"""One snapshot for each member of a fleet, so that the same causes judge it."""

from typing import Any

from unslow import __version__
from unslow.facts.bounded import bounded
from unslow.facts.run import Run
from unslow.facts.runtime import IN_BATCHES, Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import NOT_LOOKED, Fact, Known, reported
from unslow.fleet.member import Member
from unslow.fleet.snapshot.crew import tensor_parallel
from unslow.fleet.snapshot.earlier import earlier_of
from unslow.fleet.snapshot.gpus import gpus_under_load
from unslow.fleet.snapshot.host import host_readings, machine_of
from unslow.fleet.snapshot.models import model_named
from unslow.fleet.snapshot.placed import placed
from unslow.fleet.snapshot.readings import SOURCE, Readings
from unslow.fleet.snapshot.traffic import share_at_work, traffic_of
from unslow.look.runtimes.vllm.answers import cache_facts

_CACHE_INFO = "vllm:cache_config_info"


def snapshot_of(member: Member, taken_at: str = "") -> Snapshot:
    """What a Prometheus could tell of one engine, its GPUs and its host, as facts."""
    machine = machine_of(member)
    model = model_named(member.model, member.runtime, member.info.get("unslow_quant", ""))
    engine = Readings(member.engine, member.missing.get("engine", ""))
    facts = _told_of_runtime(member, engine)
    cut = tensor_parallel(member.runtime, machine.gpus.value_or(()), model, facts)
    facts |= placed(member.runtime, machine.gpus, model, share_at_work(engine) or 0.0)
    runtime = Runtime(**facts, tensor_parallel=cut)
    subject = Subject(runtime=bounded(runtime), model=model, run=bounded(_run(member, engine)))
    return Snapshot(unslow_version=__version__, taken_at=taken_at, machine=bounded(machine), subjects=(subject,))


def _told_of_runtime(member: Member, engine: Readings) -> dict[str, Any]:
    host, places = host_readings(member), engine.whole("places")
    facts: dict[str, Fact[Any]] = {
        "name": reported(member.runtime, f"{SOURCE}: its metrics"),
        "version": reported(member.version, SOURCE) if member.version else NOT_LOOKED,
        "running_requests": engine.whole("running"),
        "deferred_requests": engine.whole("waiting"),
        "kv_usage": engine.share("cache_used"),
        "preemptions": engine.whole("preemptions"),
        "prefix_hit_rate": engine.share("prefix_hit_rate"),
        "draft_acceptance": engine.share("draft_acceptance"),
        "context_length": engine.whole("context_tokens"),
        "max_sequences" if member.runtime in IN_BATCHES else "slots": places,
        "quota_cpus": host.fact("quota_cpus"),
        "memory_limit_bytes": host.whole("memory_limit_bytes"),
        "state": reported("asleep" if engine.value("asleep") else "loaded", engine.source("asleep", "up")),
    }
    capacity = {"kv_capacity_tokens": engine.whole("kv_tokens")} if "kv_tokens" in engine else {}
    return facts | capacity | cache_facts(member.info, f"{SOURCE}: {_CACHE_INFO}")


def _run(member: Member, engine: Readings) -> Run:
    whole, host = engine.fact("request_s"), host_readings(member)
    return Run(
        time_to_first_token_s=engine.fact("first_token_s"),
        queue_s=engine.fact("queue_s"),
        request_s=reported((whole.value,), whole.source) if isinstance(whole, Known) else whole,
        depth_tokens=_depth(engine),
        cpu_throttled_fraction=host.share("cpu_throttled"),
        gpus=gpus_under_load(member),
        earlier=earlier_of(member, engine),
        traffic=traffic_of(member, engine),
    )


def _depth(engine: Readings) -> Fact[int]:
    """How far into the context tokens came on average: behind the prompt and half of the answer."""
    if "prompt_tokens" not in engine:
        return engine.missing("prompt_tokens")
    half = engine.value("answer_tokens") / 2
    return engine.worked_out(round(engine.value("prompt_tokens") + half), "prompt_tokens", "answer_tokens")

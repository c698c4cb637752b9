"""Fleets for tests: a recorded vLLM with traffic, judged many times over with one thing or another changed."""

import random
from functools import cache

import msgspec
from recorded_machines import first_case

from unslow.facts.machine import Gpu
from unslow.facts.run import Traffic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, reported_fact
from unslow.fleet.judging import judge_instance
from unslow.fleet.member import Member
from unslow.fleet.report import FleetReport, Judgement
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import Scalar, SubjectReport

BUSY = "built_vllm_busy_without_preemption"
QUEUE = "built_vllm_queue_of_eight"
PREEMPTS = "built_vllm_preemptions"
WINDOW_S = 900.0
HEAD = FleetReport(
    unslow_version="0.9", prometheus="http://127.0.0.1:9090", taken_at="2026-11-16T12:00:00Z", window_s=WINDOW_S,
    queries=31, seconds=4.2, complete=True,
)  # fmt: skip


def named(key: str) -> Member:
    """A member of whom only the name is known beside its facts."""
    return Member(key=key, runtime="vLLM", window_s=WINDOW_S)


def with_traffic(case: Case, **changed: object) -> Case:
    """The case with other traffic."""
    known = case.run.traffic
    assert isinstance(known, Known)
    traffic: Traffic = msgspec.structs.replace(known.value, **changed)
    run = msgspec.structs.replace(case.run, traffic=reported_fact(traffic, known.source))
    return msgspec.structs.replace(case, run=run)


def with_gpu(case: Case, **changed: object) -> Case:
    """The case with its first GPU changed."""
    gpus: tuple[Gpu, ...] = case.machine.gpus.need()
    told = {name: reported_fact(value, "test") for name, value in changed.items()}
    first = msgspec.structs.replace(gpus[0], **told)
    machine = msgspec.structs.replace(case.machine, gpus=reported_fact((first, *gpus[1:]), "test"))
    return msgspec.structs.replace(case, machine=machine)


@cache
def report_on(name: str) -> SubjectReport:
    """What is said of a recorded machine."""
    return judge(CaseView(first_case(name)))


@cache
def judged(name: str, key: str = "one") -> Judgement:
    """A recorded machine as an instance of a fleet."""
    return judge_instance(named(key), CaseView(first_case(name)), report_on(name))


def alike(count: int, seed: int = 1, speed_noise: float = 0.03, fact_noise: float = 0.01) -> list[Judgement]:
    """Healthy instances that differ by chance alone, in speed, in load and in every number that is measured."""
    chance, base = random.Random(seed), judged(BUSY)
    return [varied(base, f"node-{n:05d}:8000", chance, speed_noise, fact_noise) for n in range(count)]


MEASURED = ("temperature_c", "clock_hz", "vram_used_bytes", "vram_free_bytes", "busy_cpus", "available_bytes")


def varied(base: Judgement, key: str, chance: random.Random, speed_noise: float, fact_noise: float) -> Judgement:
    """The same instance with chance in it."""
    speed = 1.0 + chance.uniform(-speed_noise, speed_noise)
    facts = {
        path: value * (1.0 + chance.uniform(-fact_noise, fact_noise))
        if isinstance(value, int | float) and path.endswith(MEASURED)
        else value
        for path, value in base.facts.items()
    }
    instance = base.instance
    measured = {name: rate * speed for name, rate in instance.measured.items()}
    given = (instance.tokens_per_s or 0.0) * speed
    return Judgement(msgspec.structs.replace(instance, key=key, measured=measured, tokens_per_s=given), facts)


def slowed(one: Judgement, share: float, **facts: Scalar) -> Judgement:
    """The same instance at a share of its speed, with other facts; two underscores stand for a point."""
    instance = one.instance
    measured = {name: rate * share for name, rate in instance.measured.items()}
    changed = msgspec.structs.replace(instance, measured=measured, tokens_per_s=(instance.tokens_per_s or 0.0) * share)
    return Judgement(changed, one.facts | {name.replace("__", "."): value for name, value in facts.items()})

"""Groups for the tests of capacity: moments on a line, with the noise of a seed, and a machine that physics knows."""

import random

from unslow.facts.machine import Gpu, Machine
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import measured_fact, reported_fact
from unslow.fleet.capacity.limits import InstanceGroup, Load, Moment
from unslow.fleet.snapshots import model_named
from unslow.think.case.view import CaseView


def moments(low, high, start_s=0.007, each_s=0.001, *, cache=None, first=None):
    """Loads between two ends, each request with that share of the cache and that much of the first token's time."""
    chance = random.Random(7)
    found = []
    for _ in range(300):
        n = chance.uniform(low, high)
        gap = (start_s + each_s * n) * chance.lognormvariate(0, 0.05)
        found.append(Moment(n, gap, 0.1 + first * n if first else None, 0.0, n * cache if cache else None))
    return tuple(found)


def like(those=(), **more):
    """Four instances with a GPU each."""
    given = {"runtime": "vLLM", "model": "Llama-3.1-8B", "devices": "NVIDIA H100 80GB HBM3", "instances": 4}
    return InstanceGroup(**{**given, "gpus_each": 1, "moments": those, "load": Load(30.0, 40.0)} | more)


def case(gpus=1, name="NVIDIA H100 80GB HBM3", runtime="vLLM"):
    """An engine that physics can predict."""
    told = {"vendor": "nvidia", "name": name, "vram_total_bytes": 85_520_809_984}
    facts = {key: reported_fact(value, "t") for key, value in told.items()}
    cards = tuple(Gpu(index=n, **facts) for n in range(gpus))
    settings = {"name": runtime, "tensor_parallel": gpus, "state": "loaded"}
    return CaseView(
        Case(
            machine=Machine(gpus=reported_fact(cards, "t")),
            runtime=Runtime().with_facts(**{key: reported_fact(value, "t") for key, value in settings.items()}),
            model=model_named("meta-llama/Llama-3.1-8B-Instruct", "vLLM"),
            run=Run(depth_tokens=measured_fact(1000, "t")),
        )
    )

"""What people tell, made up for tests."""

from cases import r

from unslow.facts.account import Account, Comparison, Remark, Topic
from unslow.facts.machine import Gpu, Machine, System
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import told_fact


def says(topic: Topic, text: str, *, denied: bool = False) -> Remark:
    return Remark(topic=topic, text=text, source="paste:3", denied=denied)


def compares(topic: Topic, slow: float, fast: float, text: str = "", metric: str = "decode") -> Comparison:
    return Comparison(metric=metric, slow=slow, fast=fast, differs=(topic,), text=text or topic, source="paste:4")


def account(*said: Remark | Comparison, **facts) -> Account:
    """An account of remarks and comparisons; a person who writes is taken to complain about decoding."""
    remarks = tuple(s for s in said if isinstance(s, Remark))
    comparisons = tuple(s for s in said if isinstance(s, Comparison))
    given = {"slow_metric": "decode"} | facts
    return Account(
        remarks=told_fact(remarks, "paste"),
        comparisons=told_fact(comparisons, "paste"),
        **{name: told_fact(value, "paste:1") for name, value in given.items()},
    )


def pasted(
    *said: Remark | Comparison, gpus=(), system: str = "", runtime=None, model=None, gpu_facts=None, **about
) -> Case:
    """A case as from a pasted text: GPUs by name, facts of the runtime and the model, and what the person says."""
    cards = tuple(Gpu(index=i, name=told_fact(name, "paste:2"), **(gpu_facts or {})) for i, name in enumerate(gpus))
    machine = Machine(**({"gpus": told_fact(cards, "paste:2")} if cards else {}))
    if system:
        machine = Machine(system=System(name=told_fact(system, "paste:2")), gpus=machine.gpus)
    return Case(
        machine=machine,
        runtime=Runtime().with_facts(**{name: r(value) for name, value in (runtime or {}).items()}),
        model=Model(**{name: r(value) for name, value in (model or {}).items()}),
        account=account(*said, **about),
    )

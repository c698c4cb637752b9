"""Cases that a diagnosis must survive: their lists shuffled, facts missing, facts of other machines mixed in."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from unslow.facts.runtime import FACT_PATHS, Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown

EACH = 50
KINDS = ("shuffled", "truncated", "contradictory")
BLANK = Unknown("blanked by a test", "ask the test")
BAGS = ("processes", "buffers", "busiest_others", "disks", "contradictions")
"""Lists whose order says nothing; others (arguments, GPUs by index, requests in time) are left as they are."""
GROUPS = ("machine", "runtime", "model", "run", "account")


def variants(case: Case, others: list[Case], seed: str, each: int = EACH) -> Iterator[tuple[str, Case]]:
    """So many changed cases, each kind in turn, the same ones every time."""
    dice = random.Random(seed)
    for number in range(each):
        kind = KINDS[number % len(KINDS)]
        yield (
            kind,
            {"shuffled": shuffled, "truncated": truncated, "contradictory": contradictory}[kind](case, others, dice),
        )


def shuffled(case: Case, _others: list[Case], dice: random.Random) -> Case:
    """Every bag in another order."""
    return _mapped(case, lambda name, fact: _in_another_order(fact, dice) if name in BAGS else fact)


def truncated(case: Case, _others: list[Case], dice: random.Random) -> Case:
    """Facts missing, here and there or nearly everywhere, and lists cut short."""
    share = dice.choice((0.05, 0.2, 0.5, 0.9))

    def cut(_name: str, fact: Any) -> Any:
        if dice.random() < share:
            return BLANK if isinstance(fact, Known) else ()
        whole = fact.value if isinstance(fact, Known) else None
        if isinstance(whole, list | tuple) and len(whole) > 1 and dice.random() < share:
            return msgspec.structs.replace(fact, value=whole[: dice.randrange(len(whole))])
        return fact

    return _mapped(case, cut)


def contradictory(case: Case, others: list[Case], dice: random.Random) -> Case:
    """Some facts as they are on other machines."""
    for _ in range(dice.randrange(1, 25)):
        other, group = dice.choice(others), dice.choice(GROUPS)
        mine, theirs = getattr(case, group), getattr(other, group)
        if isinstance(mine, Runtime):
            said = [n for n in FACT_PATHS if theirs.fact(n) != mine.fact(n)]
        else:
            said = [n for n in theirs.__struct_fields__ if getattr(theirs, n) != getattr(mine, n)]
        if said and isinstance(mine, Runtime):
            name = dice.choice(said)
            case = msgspec.structs.replace(case, runtime=mine.with_facts(**{name: theirs.fact(name)}))
        elif said:
            name = dice.choice(said)
            changed = msgspec.structs.replace(mine, **{name: getattr(theirs, name)})
            case = msgspec.structs.replace(case, **{group: changed})
    return case


def _in_another_order(fact: Any, dice: random.Random) -> Any:
    bag = fact.value if isinstance(fact, Known) else fact
    if not isinstance(bag, list | tuple):
        return fact
    mixed = type(bag)(dice.sample(bag, len(bag)))
    return msgspec.structs.replace(fact, value=mixed) if isinstance(fact, Known) else mixed


def _mapped(thing: Any, change: Any) -> Any:
    """The thing with every fact in it changed, from the inside out."""
    if isinstance(thing, list | tuple) and not hasattr(thing, "_fields"):  # a named one, such as a tensor, is one fact
        return type(thing)(_mapped(one, change) for one in thing)
    if isinstance(thing, Known):
        return msgspec.structs.replace(thing, value=_mapped(thing.value, change))
    if not isinstance(thing, msgspec.Struct):
        return thing
    fields = {name: getattr(thing, name) for name in thing.__struct_fields__}
    return msgspec.structs.replace(thing, **{n: _field(n, value, change) for n, value in fields.items()})


def _field(name: str, value: Any, change: Any) -> Any:
    value = _mapped(value, change)
    is_bag = name in BAGS and isinstance(value, list | tuple)
    return change(name, value) if isinstance(value, Known) or is_bag else value

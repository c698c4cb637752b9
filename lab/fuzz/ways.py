"""Three ways to make inputs: plain dice, which are quick; hypothesis; and a fuzzer that looks for new branches."""

import importlib
import inspect
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st
from lab.fuzz.watch import Target, Watch

LARGEST_INPUT_BYTES = 65_536


def dice_run(target: Target, watch: Watch, count: int, seed: int) -> None:
    """The seeds, then inputs from dice; every eighth is a seed with a few bytes changed."""
    seeds = list(target.seeds.values())
    for data in seeds[:count]:
        watch.look(data)
    for n in range(count - len(seeds)):
        dice = random.Random((seed << 40) + n)
        watch.look(target.made(dice) if n % 8 else changed(dice, dice.choice(seeds)))


def changed(dice: random.Random, data: bytes) -> bytes:
    """The same bytes but for a few."""
    copy = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(copy) + 1)
        copy[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(3))
    return bytes(copy)


def hypothesis_run(target: Target, watch: Watch, count: int, seed: int) -> None:
    """The same dice in the hands of hypothesis, and random files."""
    inputs = st.randoms(use_true_random=False).map(target.made) | st.binary(max_size=LARGEST_INPUT_BYTES // 16)

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(inputs)
    def look(data: bytes) -> None:
        watch.look(data)

    look()


def guided_run(target: Target, watch: Watch, count: int, seed: int) -> None:
    """What reaches a new branch is changed further: atheris, which is libFuzzer with the branches of Python."""
    atheris: Any = importlib.import_module("atheris")
    for function in _functions(target.package):
        atheris.instrument_func(function)

    def look(data: bytes) -> None:
        watch.look(data)
        if watch.inputs >= count:  # the fuzzer itself would neither return nor run what is registered for the exit
            shutil.rmtree(corpus)
            os._exit(watch.report())

    def mutated(data: bytes, most: int, chance: int) -> bytes:
        return target.made(random.Random(chance))[:most] if chance % 4 == 0 else bytes(atheris.Mutate(data, most))

    corpus = tempfile.mkdtemp()
    for name, data in target.seeds.items():
        (Path(corpus) / name).write_bytes(data)
    options = [f"-seed={seed + 1}", f"-max_len={LARGEST_INPUT_BYTES}"]
    atheris.Setup([sys.argv[0], *options, corpus], look, custom_mutator=mutated)
    atheris.Fuzz()


def _functions(package: str) -> list[Any]:
    """All functions and methods that the modules of a package define."""
    modules = [m for name, m in sys.modules.items() if name.startswith(package)]
    owners = [
        *modules,
        *(c for m in modules for c in vars(m).values() if inspect.isclass(c) and c.__module__ == m.__name__),
    ]
    found = [inspect.unwrap(getattr(f, "fget", None) or f) for o in owners for f in vars(o).values()]
    return [f for f in found if inspect.isfunction(f) and f.__module__.startswith(package)]


WAYS = {"dice": dice_run, "hypothesis": hypothesis_run, "guided": guided_run}

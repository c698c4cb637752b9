"""Few layers instead of all: the same buffers to the byte, only where the allocator's gaps prove it."""

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.catalog.models import find_model
from unslow.think.blueprints import made_up
from unslow.think.memo import one_judgement
from unslow.think.memory.llama_cpp import need
from unslow.think.memory.llama_cpp.cache import Build, Kernels
from unslow.think.memory.llama_cpp.hyperparameters import Settings, hyper_of
from unslow.think.memory.llama_cpp.model_graph import Settling, fewest_layers
from unslow.think.memory.llama_cpp.need import heeded_settings
from unslow.think.memory.llama_cpp.places import Places


def test_equal_layers_are_reduced_to_six_or_seven() -> None:
    assert fewest_layers("a" * 80) == [0, 1, 2, 3, 78, 79]
    assert fewest_layers("a" * 81) == [0, 1, 2, 3, 4, 79, 80]  # an even number is left out


def test_every_kind_keeps_its_first_last_and_predecessor() -> None:
    kinds = "aaaaaaaaaa" + "bba" * 20 + "aaaaaaaaaa"
    kept = fewest_layers(kinds)
    assert {kinds.index("b"), kinds.rindex("b"), 0, len(kinds) - 1} <= set(kept)
    assert {"aa", "ab", "bb", "ba"} <= {kinds[n : n + 2] for n in kept if n + 1 in kept}
    assert len(kept) < 20


def walked(kinds: str, steps: dict[tuple[int, str], int]) -> list[int]:
    """The states of a made-up allocator that goes through all layers."""
    states, state = [], 0
    for kind in kinds:
        state = steps[state, kind]
        states.append(state)
    return states


@given(st.integers(0, 10**9), st.text("ab", min_size=4, max_size=60))
def test_settled_layers_reach_the_same_state_as_all_layers(seed: int, kinds: str) -> None:
    chance = random.Random(seed)
    steps = {(state, kind): chance.randrange(4) for state in range(4) for kind in "ab"}
    settling = Settling(kinds)
    for _ in range(len(kinds) + 1):
        few = walked("".join(kinds[n] for n in settling.kept), steps)
        if settling.settles(few):
            break
    else:
        pytest.fail("it never settles")
    every = walked(kinds, steps)
    taken = {(state, kinds[n]) for state, n in zip([0, *few], settling.kept, strict=False)}
    assert few[-1] == every[-1]
    assert {(state, kind) for state, kind in zip([0, *every], kinds, strict=False)} <= taken


def test_alternating_gaps_are_left_out_in_pairs() -> None:
    settling = Settling("a" * 41)
    assert settling.settles([n % 2 for n in range(len(settling.kept))])
    assert (41 - len(settling.kept)) % 2 == 0


def test_gaps_that_never_repeat_keep_all_layers() -> None:
    settling = Settling("a" * 12)
    for _ in range(12):
        if settling.settles(list(range(len(settling.kept)))):
            break
    assert settling.kept == list(range(12))
    assert not settling.is_worth_a_try


SETTINGS = (
    Settings(context=8192, slots=4, unified=True, outputs=4, flash_attention=True, gpu_layers=9),
    Settings(context=4096, slots=16, outputs=16, key_type="Q4_0", value_type="Q4_0", gpu_layers=3),
    Settings(context=16384, outputs=1, gpu_layers=0, flash_attention=True),
    Settings(context=65536, outputs=1, flash_attention=True, micro_batch=2048),
)
MODELS = (("llama-3.1-8b", "Q3_K_S"), ("llama-3.1-8b", "Q4_K_M"), ("gpt-oss-20b", "Q2_K"), ("gemma-3-12b", "IQ2_M"))


def both(name: str, mix: str, settings: Settings, gpus: int = 1) -> tuple[list[int], list[int]]:
    """The buffers as they are found, and those of all layers."""
    plan = made_up(find_model(name), mix)
    with one_judgement():
        hyper = hyper_of(plan)
        settings = heeded_settings(hyper, settings)
        places, backends = Places(hyper, settings, (1.0,) * gpus), need.backends_of(gpus)
        begin = partial(Build, hyper, settings, places, Kernels())
        whole = begin()
        whole.layers = range(hyper.layers)
        return need.compute_bytes(begin, backends), need._lay_out(whole, backends)[0]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(("name", "mix"), MODELS)
def test_few_layers_need_the_same_memory_as_all(name: str, mix: str, settings: Settings) -> None:
    found, every = both(name, mix, settings)
    assert found == every


def test_pipelined_batches_with_copies_per_layer_need_all_layers() -> None:
    """A cache type without a GPU kernel is read by the host: each of four batches has its own copies in every layer."""
    settings = Settings(context=4096, outputs=1, key_type="Q5_1", value_type="Q5_1", flash_attention=True)
    found, every = both("qwen3-0.6b", "Q4_K_M", settings, gpus=2)
    assert found == every
    assert every[-1] > 2**28

"""Placings: what they leave on GPUs, and which flags express them."""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.think.plan.llama_cpp import planning

from unslow.think.memory.llama_cpp.need import memory_of
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import (
    Ledger,
    Placing,
    fewest_on_host,
    patterns,
    placed_settings,
    split_by_speed,
    split_evenly,
    split_layers,
)
from unslow.think.plan.llama_cpp.price import Pricing

DENSE = Pieces(planning.blueprint())
SPARSE = Pieces(planning.blueprint("olmoe-1b-7b"))
LATE = Pieces(planning.blueprint("deepseek-v2-lite"))
MIB = 2**20


def ledger(pieces: Pieces) -> Ledger:
    return Ledger(pieces, planning.settings())


@pytest.mark.parametrize("pieces", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("placing", [Placing(), Placing(3), Placing(0, 4), Placing(0, 0, 2), Placing(2, 3, 1)])
def test_ledger_bytes_match_the_exact_layout(pieces: Pieces, placing: Placing) -> None:
    asked = placed_settings(planning.settings(), placing, pieces, (1,))
    need = memory_of(pieces.blueprint, asked, (1.0,)).needs[0]
    assert ledger(pieces).gpu_bytes(placing) == pytest.approx(need.weights + need.cache, rel=0.002)


@pytest.mark.parametrize("pieces", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_fewest_apart_is_minimal(pieces: Pieces) -> None:
    book = ledger(pieces)
    room = 0.7 * book.all_bytes
    for least in (Placing(2, 1), Placing(0, 1, 1), Placing(0, 0, 2)):
        found = book.fewest_apart(least, room)
        every = [
            least._replace(apart=apart)
            for apart in range(least.apart, book.layers - least.whole - bool(least.pieces) + 1)
            if least.apart or apart == 0
        ]
        fitting = [placing for placing in every if book.gpu_bytes(placing) <= room]
        assert found == min(fitting, key=lambda p: p.apart, default=None)


def test_room_for_everything_leaves_nothing_on_the_host() -> None:
    book = ledger(DENSE)
    assert fewest_on_host(book, Placing(), [book.all_bytes]) == Placing()
    assert fewest_on_host(book, Placing(), [book.all_bytes - 1]) is None
    assert fewest_on_host(book, Placing(), [book.all_bytes], most=book.all_bytes - 1) is None
    assert split_layers(book, Placing(), [book.all_bytes]) == (31,)


@given(
    some.lists(some.integers(1, 50), min_size=1, max_size=12),
    some.lists(some.integers(20, 200), min_size=1, max_size=4),
)
@settings(max_examples=60)
def test_even_split_maximizes_the_smallest_free_memory(sizes: list[int], rooms: list[int]) -> None:
    counts = split_evenly(sizes, [float(room) for room in rooms])
    best = max((_least_left(sizes, rooms, cut) for cut in _cuts(len(sizes), len(rooms))), default=-1.0)
    if counts is None:
        assert best < 0
        return
    assert sum(counts) == len(sizes)
    used = [left for left in _lefts(sizes, rooms, counts) if left is not None]
    assert min(used) >= 0
    assert min(used) >= best - 1


def _cuts(count: int, parts: int):  # type: ignore[no-untyped-def]
    return (cut for cut in product(range(count + 1), repeat=parts) if sum(cut) == count)


def _lefts(sizes, rooms, cut):  # type: ignore[no-untyped-def]
    at = 0
    for room, number in zip(rooms, cut, strict=True):
        yield room - sum(sizes[at : at + number]) if number else None
        at += number


def _least_left(sizes, rooms, cut) -> float:  # type: ignore[no-untyped-def]
    return min((left for left in _lefts(sizes, rooms, cut) if left is not None), default=-1.0)


def test_override_patterns_match_exactly_the_moved_tensors() -> None:
    placing = Placing(2, 3, 1)
    rules = [re.compile(pattern) for pattern in patterns(placing, DENSE)]
    moved = {t.name for t in DENSE.blueprint.tensors if any(rule.search(t.name) for rule in rules)}
    wanted = {f"blk.{n}.ffn_{part}.weight" for n in (2, 3, 4) for part in ("up", "gate", "down")}
    assert moved == wanted | {"blk.5.ffn_up.weight"}


def test_whole_experts_use_cpu_moe_and_parts_use_patterns() -> None:
    placing = Placing(0, 5, 1)
    asked = placed_settings(planning.settings(), placing, SPARSE, (1,))
    assert asked.experts_on_cpu == 5
    assert [pattern for pattern, _ in asked.overrides] == [r"blk\.5\.(ffn_up_exps\.weight)"]


@settings(max_examples=60, deadline=None)
@given(
    some.lists(some.integers(1, 9), min_size=2, max_size=6), some.lists(some.integers(4, 30), min_size=2, max_size=3)
)
def test_slowest_gpu_gets_as_little_as_possible(sizes: list[int], rooms: list[int]) -> None:
    speeds = [float(n) for n in range(1, len(rooms) + 1)]
    found = split_by_speed(sizes, rooms, speeds)
    fitting = [cut for cut in _cuts(len(sizes), len(rooms)) if _least_left(sizes, rooms, cut) >= 0]
    assert (found is None) == (not fitting)
    if found:
        assert found in fitting
        assert _share(sizes, found) <= min(_share(sizes, cut) for cut in fitting) + max(sizes)


def _share(sizes: list[int], cut: tuple[int, ...]) -> int:
    """What the first, the slowest one, holds."""
    return sum(sizes[: cut[0]])


def test_fast_and_slow_gpu_are_split_by_speed() -> None:
    slow, quick = planning.hardware(1.0, name="RTX 3060"), planning.hardware(1.0, name="RTX 4090")
    pair = slow._replace(rooms=(*slow.rooms, *quick.rooms), chips=(*slow.chips, *quick.chips))
    pieces = Pieces(planning.blueprint("smollm2-1.7b"))
    ledger, rooms = Ledger(pieces, planning.settings(512)), (0.9 * 2**30, 0.9 * 2**30)
    assert pair.speeds
    assert not planning.hardware(1.0, gpus=2).speeds
    assert fewest_on_host(ledger, Placing(), rooms) == Placing()
    found, alike = split_layers(ledger, Placing(), rooms, pair.speeds), split_layers(ledger, Placing(), rooms)
    assert found[0] < alike[0]
    assert sum(found) == sum(alike)


def test_dense_first_layer_of_deepseek_has_no_experts_to_move() -> None:
    """The first layer of DeepSeek V2 has none: an empty pattern would match everything."""
    book = ledger(LATE)
    assert fewest_on_host(book, Placing(0, 0, 1), [book.all_bytes]) is None
    found = fewest_on_host(book, Placing(0, 1, 1), [0.9 * book.all_bytes])
    assert found
    assert patterns(found, LATE)
    assert all("_exps" in pattern for pattern in patterns(found, LATE))


def test_layers_without_experts_cost_no_crossing() -> None:
    pricing = Pricing(LATE, planning.hardware(16), Work(32, 0, 64))
    first, second, third = (_step_s(pricing, apart) for apart in (1, 2, 3))
    assert third - second == pytest.approx(second - first, rel=0.05)  # the second layer is the first with experts
    assert first - _step_s(pricing, 0) < 0.7 * (second - first)


def _step_s(pricing: Pricing, apart: int) -> float:
    return pricing.price(planning.settings(), Placing(0, apart), (28,), 8).step_s


def test_host_only_placing_has_zero_gpu_layers() -> None:
    layers = len(DENSE.layers)
    assert placed_settings(planning.settings(), Placing(layers), DENSE, (0, 0)).gpu_layers == 0
    assert placed_settings(planning.settings(), Placing(layers), DENSE, (0, 1)).gpu_layers == 1

"""The placings that are priced: the fewest pieces on the host for each number of whole layers."""

from math import inf

import pytest
from tests.think.plan.llama_cpp import planning

from unslow.think.plan.llama_cpp.bounds import Fitting, PlacingTrials, Rooms
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Ledger, Placing
from unslow.think.plan.llama_cpp.question import EVERYTHING, Abilities

PIECES = Pieces(planning.blueprint())
LEDGER = Ledger(PIECES, planning.settings())
LAYERS = len(PIECES.layers)


def rooms(fitting: Fitting, room: float) -> Rooms:
    return dict.fromkeys(fitting.kinds, (room,))


def test_placings_include_host_only_where_everything_fits() -> None:
    fitting = Fitting(PIECES, 1, EVERYTHING)
    found = fitting.placings(LEDGER, rooms(fitting, LEDGER.all_bytes))
    assert [placing for placing, _ in found] == [*(Placing(whole) for whole in range(LAYERS + 1)), Placing(LAYERS)]
    assert [split for _, split in found[-2:]] == [(1,), (0,)]


def test_tried_placing_is_replaced_by_the_next() -> None:
    fitting, tried = Fitting(PIECES, 1, EVERYTHING), PlacingTrials()
    asked = rooms(fitting, 0.9 * LEDGER.all_bytes)
    first, *others = (placing for placing, _ in fitting.placings(LEDGER, asked, tried))
    tried.lacks_gpu(first, LEDGER.gpu_bytes(first))
    second, *rest = (placing for placing, _ in fitting.placings(LEDGER, asked, tried))
    assert rest == others
    assert second.whole == first.whole == 0
    assert (second.apart, second.pieces) > (first.apart, first.pieces)
    tried.fits(second)
    third = fitting.placings(LEDGER, asked, tried)[0][0]
    assert third.whole or (third.apart, third.pieces) < (second.apart, second.pieces)


def test_full_host_excludes_placings_that_need_more_host_memory() -> None:
    fitting, tried = Fitting(PIECES, 1, EVERYTHING), PlacingTrials()
    asked = rooms(fitting, 0.5 * LEDGER.all_bytes)
    first = fitting.placings(LEDGER, asked, tried)[3][0]
    tried.lacks_host(LEDGER.gpu_bytes(first))
    left = fitting.placings(LEDGER, asked, tried)
    assert all(LEDGER.gpu_bytes(placing) > LEDGER.gpu_bytes(first) for placing, _ in left)


def test_another_split_is_tried_before_excluding_a_placing() -> None:
    tried = PlacingTrials()
    tried.lacks_gpu(Placing(0, 2, 1), 500, (3, 1), (2, 2))
    assert tried.most_bytes(Placing(0, 1, 1)) == inf
    tried.lacks_gpu(Placing(0, 2, 1), 500, (2, 2), (3, 1))
    assert tried.most_bytes(Placing(0, 1, 1)) == 499


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_each_placing_fits_and_one_piece_less_does_not(share: float) -> None:
    fitting = Fitting(PIECES, 1, EVERYTHING)
    room = share * LEDGER.all_bytes
    found = [placing for placing, _ in fitting.placings(LEDGER, rooms(fitting, room))]
    assert all(LEDGER.gpu_bytes(placing) <= room for placing in found[:-1])
    assert found[-1] == Placing(LAYERS)
    first = found[0]
    assert first.apart or first.pieces
    less = first._replace(pieces=first.pieces - 1) if first.pieces else first._replace(apart=first.apart - 1)
    assert LEDGER.gpu_bytes(less) > room


def test_placing_kinds_follow_the_abilities_of_the_runtime() -> None:
    assert Fitting(PIECES, 1, Abilities(apart=False)).kinds == tuple((whole, 0, 0) for whole in range(4))
    assert all(pieces == 0 for _, _, pieces in Fitting(PIECES, 1, Abilities(partly=False)).kinds)
    assert (3, 1, 2) in Fitting(PIECES, 1, EVERYTHING).kinds


def test_each_placing_kind_has_its_own_room() -> None:
    fitting = Fitting(PIECES, 1, EVERYTHING)
    small, large = 0.8 * LEDGER.all_bytes, 0.95 * LEDGER.all_bytes
    found = fitting.placings(LEDGER, {kind: (large if kind[0] else small,) for kind in fitting.kinds})
    by_whole = {placing.whole: LEDGER.gpu_bytes(placing) for placing, _ in found}
    assert by_whole.get(0, 0) <= small
    assert by_whole[1] > small


def test_same_question_returns_the_cached_placings() -> None:
    fitting = Fitting(PIECES, 1, EVERYTHING)
    asked = rooms(fitting, 0.5 * LEDGER.all_bytes)
    assert fitting.placings(LEDGER, asked) is fitting.placings(LEDGER, dict(asked))
    assert fitting.placings(LEDGER, rooms(fitting, 0.6 * LEDGER.all_bytes)) is not fitting.placings(LEDGER, asked)


def test_without_gpus_everything_is_on_the_host() -> None:
    fitting = Fitting(PIECES, 0, EVERYTHING)
    assert fitting.placings(LEDGER, {}) == [(Placing(LAYERS), ())]

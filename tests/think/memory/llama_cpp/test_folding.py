from hypothesis import given
from hypothesis import strategies as st

from unslow.think.memory.llama_cpp.folding import folded


def test_equal_layers_are_laid_out_a_few_times() -> None:
    assert folded("a" * 80) == [0, 1, *range(74, 80)]


def test_whole_cycles_are_left_out() -> None:
    for layers in range(10, 100):
        assert (layers - len(folded("a" * layers))) % 6 == 0


def test_a_pattern_keeps_its_rhythm() -> None:
    kinds = "wwwwwf" * 10 + "ww"
    assert "".join(kinds[n] for n in folded(kinds)) == "wwwwwf" * 4 + "ww"


def test_a_change_in_the_middle_is_kept() -> None:
    kinds = "h" * 40 + "g" * 40
    assert "".join(kinds[n] for n in folded(kinds)) == "hhhhgggg"


@given(st.lists(st.sampled_from("ab"), max_size=60))
def test_it_is_a_part_of_the_sequence_with_every_kind_and_both_ends(kinds: list[str]) -> None:
    kept = folded(kinds)
    assert kept == sorted(set(kept))
    assert {kinds[n] for n in kept} == set(kinds)
    assert not kinds or (kept[0], kept[-1]) == (0, len(kinds) - 1)

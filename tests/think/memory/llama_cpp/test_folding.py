from hypothesis import given
from hypothesis import strategies as st

from unslow.think.memory.llama_cpp.model_graph import fold_repeats


def test_equal_layers_are_folded_to_eight() -> None:
    assert fold_repeats("a" * 80) == [0, 1, *range(74, 80)]


def test_whole_cycles_of_six_are_left_out() -> None:
    for layers in range(10, 100):
        assert (layers - len(fold_repeats("a" * layers))) % 6 == 0


def test_pattern_keeps_its_period() -> None:
    kinds = "wwwwwf" * 10 + "ww"
    assert "".join(kinds[n] for n in fold_repeats(kinds)) == "wwwwwf" * 4 + "ww"


def test_change_in_the_middle_is_kept() -> None:
    kinds = "h" * 40 + "g" * 40
    assert "".join(kinds[n] for n in fold_repeats(kinds)) == "hhhhgggg"


@given(st.lists(st.sampled_from("ab"), max_size=60))
def test_folded_layers_are_a_subsequence_with_every_kind_and_both_ends(kinds: list[str]) -> None:
    kept = fold_repeats(kinds)
    assert kept == sorted(set(kept))
    assert {kinds[n] for n in kept} == set(kinds)
    assert not kinds or (kept[0], kept[-1]) == (0, len(kinds) - 1)

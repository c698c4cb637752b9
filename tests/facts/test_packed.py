import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.facts.blueprint import Tensor
from unslow.facts.packed import packed, unpacked


def test_a_model_of_many_layers_is_a_few_lines() -> None:
    tensors = [Tensor("token_embd.weight", "Q4_K", (4096, 32000), 73728000)]
    tensors += [Tensor(f"blk.{n}.ffn_up.weight", "Q4_K", (4096, 14336), 33030144) for n in range(32)]
    tensors += [Tensor(f"blk.{n}.ffn_down.weight", "Q6_K", (14336, 4096), 48168960) for n in (0, 1, 2, 5, 31)]
    lines = packed(tensors)
    assert lines == [
        "token_embd.weight Q4_K 4096x32000 73728000",
        "blk.{}.ffn_up.weight Q4_K 4096x14336 33030144 0-31",
        "blk.{}.ffn_down.weight Q6_K 14336x4096 48168960 0-2,5,31",
    ]
    assert sorted(unpacked(lines)) == sorted(tensors)


@given(
    st.sets(
        st.tuples(
            st.one_of(st.just("output.weight"), st.integers(0, 99).map(lambda n: f"blk.{n}.attn_q.weight")),
            st.sampled_from(["F32", "Q4_K", "IQ2_XXS"]),
            st.lists(st.integers(1, 9999), max_size=4).map(tuple),
            st.integers(0, 10**12),
        ),
        max_size=50,
    )
)
def test_nothing_is_lost(rows: set[tuple[str, str, tuple[int, ...], int]]) -> None:
    tensors = sorted(Tensor(*row) for row in rows)
    assert sorted(unpacked(packed(tensors))) == tensors


@pytest.mark.parametrize(
    "line",
    ["", "x", "x F32 1x2", "x F32 1x2 3 4-1", "x F32 1x2 3 0-99999", "x F32 -1 3", "x F32 1 3 -", "blk.{} F32 1 1 ,"],
)
def test_hostile_lines_are_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpacked([line])


def test_more_tensors_than_any_model_has_are_refused() -> None:
    with pytest.raises(ValueError, match="more than"):
        unpacked([f"blk.{{}}.x{n} F32 1 1 0-4095" for n in range(20)])

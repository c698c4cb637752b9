"""Many rows at once give what each gives alone, and the usual properties hold."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.think.physics.terms import Interval
from unslow.think.speed import question
from unslow.think.speed.question import trust_in, widen_interval
from unslow.think.speed.rows import group_of, parse_row, placed_row, question_of
from unslow.think.speed.tables import DEPTH, NAMES, SIZE, Predictions, cells_number, predict_cells, predict_many

rows = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["Llama 3.1 8B", "Qwen3 30B A3B", "llama-3.3-70b", "SmolLM2 135M", "Gemma 3 27B"]),
        "quant": st.sampled_from(["Q4_K_M", "Q8_0", "F16", "IQ4_XS"]),
        "hardware": st.sampled_from(
            ["RTX 4090", "RTX 3060 12GB", "H100 SXM", "Apple M3 Max", "RX 7900 XTX", "Ryzen 9 7950X"]
        ),
        "test": st.sampled_from(["tg128", "pp512", "tg", "pp4096"]),
        "n_gpus": st.sampled_from(["", "1", "2.0"]),
        "ngl": st.sampled_from(["", "99", "20", "99 (n-cpu-moe 10)"]),
        "flash_attn": st.sampled_from(["", "1.0", "0"]),
        "kv_type": st.sampled_from(["", "q8_0"]),
        "batch": st.sampled_from(["", "B=8", "ub=1024"]),
        "date_or_build": st.sampled_from(["", "2023-12", "b5000"]),
        "ctx_or_depth": st.sampled_from(["", "0", "4096", "33000"]),
    }
)
rubbish = st.dictionaries(
    st.sampled_from([*NAMES, "ctx_or_depth", "model_size_gib"]),
    st.one_of(st.text(max_size=20), st.sampled_from(["nan", "-1", "1e400", "RTX 4090", "Llama 3.1 8B", "tg128", "0x"])),
)


def together(some: list[dict[str, str]]) -> Predictions:
    cells = [tuple(row.get(name, "") for name in NAMES) for row in some]
    numbers = ([row.get(name, "") for row in some] for name in (DEPTH, SIZE))
    return predict_cells(NAMES, cells, *numbers)


def alone(row: dict[str, str]) -> Interval | Unknown:
    found = parse_row(row)
    if isinstance(found, Unknown):
        return found
    found = placed_row(found)
    q = question_of(found)
    prompt = found.kind == "pp"
    one = (
        question.prefill_outcome(q, found.tokens, found.micro_batch)
        if prompt
        else question.decode_outcome(q, group_of(found))
    )
    return widen_interval(one.rate, trust_in(found.device, found.setting).wider, one.ceiling)


@pytest.mark.no_cover  # many rows through the same lines
@settings(max_examples=25, deadline=None)
@given(st.lists(rows, min_size=1, max_size=12), st.sampled_from([0.9, 1.0, 1.3]))
def test_many_rows_equal_each_alone(some: list[dict[str, str]], scale: float) -> None:
    for row in some[::2]:
        found = parse_row(row)
        if not isinstance(found, Unknown):
            row["model_size_gib"] = repr(found.load.file_bytes * scale / 2**30)
    found_all = together(some)
    for n, row in enumerate(some):
        one = alone(row)
        if isinstance(one, Unknown):
            assert found_all.reasons[n] == one.why
            assert math.isnan(found_all.mid[n])
        else:
            assert (found_all.low[n], found_all.mid[n], found_all.high[n]) == pytest.approx(one, rel=1e-6)
            assert found_all.low[n] <= found_all.mid[n] <= found_all.high[n]
            assert found_all.basis[n].startswith("catalog: ")


@settings(max_examples=60, deadline=None)
@given(st.lists(rubbish, min_size=1, max_size=8))
def test_arbitrary_rows_give_a_speed_or_a_reason(some: list[dict[str, str]]) -> None:
    found = together(some)
    for speed, reason in zip(found.mid, found.reasons, strict=True):
        assert bool(reason) == math.isnan(speed)
        assert reason or speed > 0


CASE: dict[str, Any] = {"model": "llama-3.1-8b", "quant": "Q4_K_M", "hardware": "RTX 4090", "test": "tg128"}


def test_deeper_context_is_never_faster() -> None:
    depths = np.arange(0, 120_000, 500)
    speeds = predict_many({**CASE, "ctx_or_depth": depths}).mid
    assert (np.diff(speeds) <= 0).all()


def test_larger_file_is_never_faster() -> None:
    speeds = predict_many({**CASE, "model_size_gib": np.linspace(2, 20, 50)}).mid
    assert (np.diff(speeds) <= 0).all()


def test_model_that_does_not_fit_is_partially_offloaded() -> None:
    found = predict_many({**CASE, "model": "llama-3.3-70b", "n_gpus": ["1", "2"]})
    assert "partial offload" in found.basis[0]
    assert "several gpus" in found.basis[1]
    assert found.mid[0] < found.mid[1] / 3


def test_unpredictable_rows_say_why() -> None:
    tests = ["tg128", "tg(server),spec", "vision", "tg128 claimed"]
    found = predict_many({**CASE, "test": tests})
    assert [bool(reason) for reason in found.reasons] == [False, True, True, True]
    devices = ["no such card", "Groq LPU", ""]
    assert all(predict_many({**CASE, "hardware": devices}).reasons)
    sizes = predict_many({**CASE, "model_size_gib": ["4.6", "4600", "x"]})
    assert [bool(reason) for reason in sizes.reasons] == [False, True, True]


def test_missing_or_uneven_columns_are_refused() -> None:
    with pytest.raises(UserError, match="hardware"):
        predict_many({"model": "llama-3.1-8b", "test": "tg128"})
    with pytest.raises(UserError, match="lengths"):
        predict_many({**CASE, "quant": ["Q4_K_M", "Q8_0"], "ctx_or_depth": [1, 2, 3]})


def test_number_spellings_are_parsed() -> None:
    assert cells_number(" 4096 ") == 4096
    assert cells_number("32,768") == 32768
    assert cells_number("") == cells_number("None") == 0
    assert cells_number("-1") is cells_number("inf") is cells_number("4,5") is cells_number("x") is None

"""The limits of a token, the batching curve, and properties of every prediction."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.values import Unknown
from unslow.think.speed import question as outcome
from unslow.think.speed.question import SpeedQuestion, batching_curve, ridge, walls
from unslow.think.speed.rows import group_of, parse_row, question_of

MODELS = ("Llama 3.1 8B", "Qwen3 30B A3B", "SmolLM2 135M", "Gemma 3 27B")
DEVICES = ("RTX 4090", "H100 SXM", "Apple M3 Max", "RX 7900 XTX", "Ryzen 9 7950X")


def question(model: str = MODELS[0], device: str = DEVICES[0], **more: str) -> tuple[SpeedQuestion, str]:
    found = parse_row(
        {"model": model, "quant": "Q4_K_M", "hardware": device, "test": "tg128", "flash_attn": "1", **more}
    )
    assert not isinstance(found, Unknown)
    return question_of(found), group_of(found)


def speed(q: SpeedQuestion) -> float:
    return outcome.decode_outcome(q, "dense gpu").rate.mid


cases = st.tuples(st.sampled_from(MODELS), st.sampled_from(DEVICES))


@settings(max_examples=30, deadline=None)
@given(cases, st.floats(1, 4))
def test_more_bandwidth_is_never_slower(case: tuple[str, str], more: float) -> None:
    q, _ = question(*case)
    chip = q.chip._replace(bytes_per_s=q.chip.bytes_per_s * more)
    host = q.host._replace(chip=q.host.chip._replace(bytes_per_s=q.host.chip.bytes_per_s * more)) if q.host else None
    assert speed(q._replace(chip=chip, host=host)) >= speed(q) * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(cases)
def test_half_the_bytes_are_never_slower(case: tuple[str, str]) -> None:
    q, _ = question(*case)
    host = q.host._replace(totals=q.host.totals.scale(0.5)) if q.host else None
    assert speed(q._replace(totals=q.totals.scale(0.5) if q.totals else None, host=host)) >= speed(q)


@settings(max_examples=30, deadline=None)
@given(cases, st.floats(0, 60_000), st.floats(0, 60_000))
def test_deeper_context_is_never_faster(case: tuple[str, str], one: float, other: float) -> None:
    q, _ = question(*case)
    shallow, deep = sorted((one, other))
    assert speed(q._replace(depth=deep)) <= speed(q._replace(depth=shallow)) * (1 + 1e-9)


@settings(max_examples=30, deadline=None)
@given(cases)
def test_interval_is_ordered_and_below_the_ceiling(case: tuple[str, str]) -> None:
    q, group = question(*case)
    found = outcome.decode_outcome(q, group)
    assert 0 < found.rate.low <= found.rate.mid <= found.rate.high
    assert found.rate.mid <= found.ceiling


def test_full_offload_equals_the_plain_case() -> None:
    whole, _ = question()
    all_layers, _ = question(ngl="99")
    assert speed(all_layers) == pytest.approx(speed(whole))
    assert all_layers.host is None
    most, _ = question(ngl="31")
    assert speed(most) < speed(whole)


def test_limits_sum_to_the_time_and_one_binds() -> None:
    q, group = question()
    found = outcome.decode_outcome(q, group)
    parts = walls(found)
    assert sum(wall.seconds for wall in parts) == pytest.approx(found.seconds)
    assert [wall.binds for wall in parts] == [True] + [False] * (len(parts) - 1)
    assert parts[0].part == "device memory reads"
    assert parts[0].halved_tokens_per_s == max(wall.halved_tokens_per_s for wall in parts)
    assert all(wall.halved_tokens_per_s > found.rate.mid for wall in parts)


def test_tiny_model_is_not_bound_by_memory() -> None:
    q, group = question("SmolLM2 135M", "H100 SXM")
    assert walls(outcome.decode_outcome(q, group))[0].part != "device memory reads"


def test_batching_raises_total_and_lowers_individual_speed() -> None:
    q, group = question()
    few = {count: together for count, together in batching_curve(q, group).items() if count <= 8}
    assert list(few) == [1, 2, 4, 8]
    assert all(b > a for a, b in pairwise(few.values()))
    assert all(few[b] / b <= few[a] / a for a, b in pairwise(few))


def test_ridge_is_where_arithmetic_equals_reading() -> None:
    q, _ = question()
    at = ridge(q)
    assert at is not None
    step = q.totals.step(0.0) if q.totals else None
    assert step is not None
    reading = step.dense_bytes / q.chip.bytes_per_s
    assert 2 * step.dense_weights * at / q.chip.matrix_flops_per_s == pytest.approx(reading)
    assert ridge(question(device="Ryzen 9 7950X")[0]) is None

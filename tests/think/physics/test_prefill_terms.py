"""Prefill time by properties: on a GPU, on a CPU, and with weights copied from the host."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.catalog.learned_speed import learned_speed
from unslow.think.physics.chip import Chip, SpeedSetting
from unslow.think.physics.decode import Amounts
from unslow.think.physics.placement import SPLIT_BY_LAYER, SPLIT_BY_TENSOR
from unslow.think.physics.prefill import Prompt, host_prefill_terms, lent_weights_terms, pipelined_gpus, prefill_terms
from unslow.think.physics.terms import by_part, total_of_terms

FACTORS = learned_speed().factors
CHIP = Chip(1e12, 4e13, 1.6e14, 350.0)
AMOUNTS = Amounts(dense_bytes=4.5e9, dense_weights=7.5e9, layers=32.0, width=4096.0)
backends = st.sampled_from(("cuda", "rocm", "metal", "vulkan"))


def prompt(**more):
    usual = {
        "amounts": AMOUNTS,
        "token_weights": 7.5e9,
        "token_expert_weights": 0.0,
        "attention_products": 1e8,
        "micro_batch": 512.0,
    }
    return Prompt(**(usual | more))


def seconds(asked, chip=CHIP, backend="cuda", year=2026.0, **setting):
    return total_of_terms(prefill_terms(asked, chip, SpeedSetting(backend, **setting), year), FACTORS)


@settings(max_examples=30)
@given(backends, st.floats(1.01, 10))
def test_faster_chip_is_never_slower(backend, factor):
    usual = seconds(prompt(), backend=backend)
    for name in ("bytes_per_s", "matrix_flops_per_s", "watts"):
        better = CHIP._replace(**{name: getattr(CHIP, name) * factor})
        assert seconds(prompt(), better, backend) < usual, name


@settings(max_examples=30)
@given(backends, st.floats(16, 4096), st.floats(1.01, 8))
def test_larger_micro_batch_is_faster(backend, each, factor):
    assert seconds(prompt(micro_batch=each * factor), backend=backend) < seconds(
        prompt(micro_batch=each), backend=backend
    )


@settings(max_examples=30)
@given(backends, st.floats(0, 1e10), st.floats(0, 1e10))
def test_more_attention_costs_more(backend, one, other):
    few, many = (seconds(prompt(attention_products=n), backend=backend) for n in sorted((one, other)))
    assert few <= many


def test_unfused_attention_and_quantized_weights_cost_more():
    assert seconds(prompt(), fused=False) > seconds(prompt())
    assert seconds(prompt(is_quantised=True)) > seconds(prompt(is_quantised=False))


def test_unknown_power_limit_costs_nothing():
    assert seconds(prompt(), CHIP._replace(watts=0.0)) < seconds(prompt())
    watts = np.array([350.0, 350.0])
    assert seconds(prompt(), CHIP._replace(watts=watts)) == pytest.approx(seconds(prompt()))


@settings(max_examples=40)
@given(st.integers(1, 16), st.integers(1, 64))
def test_pipelined_gpus_are_limited_by_gpus_and_micro_batches(gpus, batches):
    at_once = pipelined_gpus(float(gpus), float(batches))
    assert 1 - 1e-9 <= at_once <= min(gpus, batches) + 1e-9
    assert pipelined_gpus(float(gpus), batches + 1.0) >= at_once - 1e-9


def test_pipelined_gpus_are_faster_and_links_cost():
    alone, two = prompt(), prompt(gpus=2.0)
    assert seconds(two) > seconds(alone)
    assert seconds(prompt(gpus=2.0, pipelined=pipelined_gpus(2.0, 8.0))) < seconds(alone)
    assert by_part(prefill_terms(alone, CHIP, SpeedSetting("cuda"), 2026.0), FACTORS)["link"] == 0


def test_tensor_split_divides_compute_and_adds_link_time():
    def parts(split):
        terms = prefill_terms(prompt(gpus=4.0, split=split), CHIP, SpeedSetting("cuda"), 2026.0)
        return by_part(terms, FACTORS)

    whole, shared = parts(SPLIT_BY_LAYER), parts(SPLIT_BY_TENSOR)
    assert whole["compute"] / 4 < shared["compute"] < whole["compute"]
    assert shared["link"] > whole["link"] > 0


def test_cpu_prefill_is_bound_by_arithmetic():
    def host(chip):
        return total_of_terms(host_prefill_terms(prompt(), chip, SpeedSetting("cpu")), FACTORS)

    chip = Chip(5e10, 4e11, 4e11, threads=8.0)
    assert host(chip) > 7.5e9 * 2 / 4e11 / 10
    assert host(chip._replace(flops_per_s=8e11)) < 0.6 * host(chip)
    assert host(chip._replace(bytes_per_s=1e11)) < host(chip)


def test_copied_weights_are_paid_once_per_micro_batch():
    def lent(each, rate=12e9):
        return total_of_terms(lent_weights_terms(prompt(micro_batch=each), rate, SpeedSetting("cuda")), FACTORS)

    assert lent(256.0) == pytest.approx(2 * lent(512.0))
    assert lent(512.0, 24e9) == pytest.approx(lent(512.0) / 2)
    assert total_of_terms(lent_weights_terms(prompt(amounts=Amounts()), 12e9, SpeedSetting("cuda")), FACTORS) == 0


def test_type_without_a_matrix_kernel_is_slower_on_a_cpu():
    chip, setting = Chip(5e10, 1e11, 1e11, threads=2.0), SpeedSetting("cpu", types="q4")
    plain, row_by_row, half = (
        total_of_terms(host_prefill_terms(prompt(amounts=AMOUNTS._replace(kinds=kinds)), chip, setting), FACTORS)
        for kinds in ({"q4_0": 7.5e9}, {"q4_1": 7.5e9}, {"q4_0": 3.75e9, "q4_1": 3.75e9})
    )
    assert 2 * plain < row_by_row < 3 * plain
    assert plain < half < row_by_row

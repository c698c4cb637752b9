"""The building blocks of the depth verdict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.facts.machine import Cpu, Machine, Memory
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, measured_fact
from unslow.think.case.view import CaseView
from unslow.think.speed.question import CORE_FLOPS_PER_S
from unslow.think.stats.depth import Expectation, expectation_of, expected_rates, usual_depths


def known(value) -> Known:
    return measured_fact(value, "test")


CPU_CASE = Case(
    machine=Machine(
        cpu=Cpu(physical_cores=known(8), logical_cpus=known(16)),
        memory=Memory(read_bytes_per_s=known(40e9), read_one_core_bytes_per_s=known(15e9)),
        gpus=known(()),
    ),
    runtime=Runtime().with_facts(threads=known(8), kv_bytes=known(131072 * 8192), kv_cells=known(8192)),
    model=Model(
        weights_bytes=known(4_900_000_000), layers=known(32), width=known(4096), vocabulary=known(128_256),
        parameters=known(8_030_000_000),
    ),
)  # fmt: skip


def test_expected_slope_on_a_cpu_is_nearly_linear():
    found = expectation_of(CaseView(CPU_CASE), 8192)
    assert not found.on_gpu
    assert found.kv_bytes == 131072
    attention = 32 * 2 * 4096 * 11.5 / (8 * CORE_FLOPS_PER_S)  # of all heads, with a key and a value
    reading = 131072 / found.host_bytes_per_s
    assert 0.8 * max(reading, attention) < found.slope_s < reading + attention, "both go on at the same time"
    rates = expected_rates(CaseView(CPU_CASE), [512.0, 4096.0, 8192.0])
    steps = [1 / rates[4096.0] - 1 / rates[512.0], 1 / rates[8192.0] - 1 / rates[4096.0]]
    assert steps[1] / 4096 == pytest.approx(steps[0] / 3584, rel=0.15)


def test_unknown_machine_has_no_expectation():
    assert expectation_of(CaseView(Case()), 8192) == Expectation(host_bytes_per_s=0.0)
    assert expected_rates(CaseView(Case()), [512.0]) == {}


@pytest.mark.parametrize(
    ("room", "depths"),
    [
        (32_000, [512, 1024, 2048, 4096, 8192, 16384, 32000]),
        (16_384, [512, 1024, 2048, 4096, 8192, 16384]),
        (3900, [128, 256, 512, 1024, 2048, 3900]),
        (200, [8, 16, 32, 64, 128, 200]),
    ],
)
def test_depths_double_up_to_the_context(room, depths):
    assert usual_depths(room) == depths


@given(st.integers(1, 10**7))
def test_usual_depths_grow_and_fit(room):
    depths = usual_depths(room)
    assert depths == sorted(set(depths))
    assert depths[0] > 0
    assert depths[-1] <= room
    assert len(depths) >= 5 or room < 16

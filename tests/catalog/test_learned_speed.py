"""The learned speed factors: the file itself, and how it is written."""

import math

import msgspec
import pytest
import tomli
from lab.fit_speed import as_toml

from unslow.catalog.learned_speed import LearnedSpeed, Spread, learned_speed, spread_of

GROUPS = ("dense gpu", "deep context", "moe", "several gpus", "partial offload", "prefill", "cpu only")


def test_learned_speed_survives_writing() -> None:
    one = LearnedSpeed(
        made_by='a "test"',
        measurements="2 configurations on 1 devices",
        factors={"step/cuda": -8.5, 'launch/cuda/ada/RTX "4090"': 0.25, "waste/cuda": 0.0},
        spreads={"moe": Spread(0.9, 1.25, 12, 3, 0.07), "moe/cuda": Spread(1.0, 1.0)},
        chips={"cuda": ["ada", "hopper"], "cpu": []},
    )
    assert msgspec.convert(tomli.loads(as_toml(one)), LearnedSpeed) == one


def test_the_learned_speed_file_is_as_written() -> None:
    assert msgspec.convert(tomli.loads(as_toml(learned_speed())), LearnedSpeed) == learned_speed()


def test_every_spread_contains_one() -> None:
    for name, spread in learned_speed().spreads.items():
        assert 0 < spread.low <= 1 <= spread.high, name
        assert spread.configurations >= spread.devices >= 1, name
        assert 0 <= spread.median_error < 1, name


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_has_a_spread_and_backends_refine_it(group: str) -> None:
    whole = learned_speed().spreads[group]
    assert spread_of(group, "a backend that nobody measured") == whole
    for name, spread in learned_speed().spreads.items():
        kind, _, backend = name.partition("/")
        if kind == group and backend:
            assert spread_of(group, backend) == spread
            assert spread.configurations <= whole.configurations


def test_factors_are_logarithms_of_plausible_values() -> None:
    """From a tenth of a nanosecond (per number sent) to a factor of 1000."""
    for name, log in learned_speed().factors.items():
        assert math.log(1e-11) < log < math.log(1e3), name


def test_chip_families_are_listed_for_every_gpu_backend() -> None:
    assert {"cuda", "rocm", "metal", "vulkan"} <= learned_speed().chips.keys()
    assert all(learned_speed().chips.values())

"""Where a model's tensors are known, what it asks of the GPU is known to the byte."""

import msgspec
import pytest
from cases import gpu_case, r, with_facts, with_tensors

from unslow.facts.model import Table, Tensor, packed_tensors
from unslow.think.case.demand import (
    exact_layers,
    exact_needs,
    fitting_placement,
    fuses_of,
    read_demand,
    read_shape,
    rotates_of,
)

GIB, MIB = 2**30, 2**20


def test_the_needs_are_those_of_the_allocator() -> None:
    needs = exact_needs(with_tensors(gpu_case()), 8192)
    assert needs is not None
    device, host = needs
    assert device.cache == GIB
    assert device.weights / MIB == pytest.approx(4403.5, abs=0.2)
    assert 100 * MIB < device.compute < 130 * MIB
    assert host.weights / MIB == pytest.approx(281.8, abs=0.2)


def test_the_demand_follows_the_context() -> None:
    case = with_tensors(gpu_case())
    shorter, longer = read_demand(case, 4096), read_demand(case, 8192)
    assert longer.asked - shorter.asked == pytest.approx(GIB / 2, rel=0.02)


def test_as_many_layers_as_fit_and_no_more() -> None:
    case, room = with_tensors(gpu_case()), 3 * GIB
    layers = exact_layers(case, 8192, room)
    assert layers is not None
    for count, fits in ((layers, True), (layers + 1, False)):
        needs = exact_needs(case, 8192, count)
        assert needs is not None
        assert (needs[0].total <= room) is fits
    placement = fitting_placement(case, read_shape(case), 1e18, 8192)
    assert (placement.gpu_layers, placement.output_on_gpu) == (32, True)


def test_without_tensors_nothing_is_exact() -> None:
    case = gpu_case()
    assert exact_needs(case, 8192) is None
    assert exact_layers(case, 8192, GIB) is None


@pytest.mark.parametrize(
    ("table", "metadata"),
    [
        (Table([], [(0, 1)]), {}),
        (packed_tensors([]), {"llama.block_count": 10**9}),
        (packed_tensors([]), {}),
        (packed_tensors([Tensor("x", "F32", (1,), 1)]), {"llama.block_count": 3}),
    ],
)
def test_hostile_descriptions_are_not_believed(table: Table, metadata: dict[str, int]) -> None:
    case = with_tensors(gpu_case())
    model = msgspec.structs.replace(case.model, tensors=r(table), metadata=r(metadata))
    needs = exact_needs(msgspec.structs.replace(case, model=model), 8192)
    assert needs is None or all(n.total >= 0 for n in needs)


@pytest.mark.parametrize(
    ("version", "fuses"), [("b10586", False), ("b10900-0c1e570", True), ("b0-unknown", None), ("0.12.3", None)]
)
def test_only_builds_that_are_known_tell_what_they_keep(version: str, *, fuses: bool | None) -> None:
    assert fuses_of(with_facts(gpu_case(), {"runtime.version": version})) is fuses


@pytest.mark.parametrize(("version", "rotates"), [("b8623", False), ("b8624", True), ("b10900", True), ("", False)])
def test_only_builds_that_are_known_rotate_the_cache(version: str, *, rotates: bool) -> None:
    assert rotates_of(with_facts(gpu_case(), {"runtime.version": version})) is rotates

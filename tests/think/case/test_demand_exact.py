"""Where a model's tensors are known, its VRAM demand is known to the byte."""

import msgspec
import pytest
from cases import gpu_case, r, with_facts, with_tensors

from unslow.facts.model import Table, Tensor, packed_tensors
from unslow.think.case.view import CaseView

GIB, MIB = 2**30, 2**20


def test_exact_needs_match_the_allocator() -> None:
    needs = CaseView(with_tensors(gpu_case())).memory.exact_needs(8192)
    assert needs is not None
    device, host = needs
    assert device.cache == GIB
    assert device.weights / MIB == pytest.approx(4403.5, abs=0.2)
    assert 100 * MIB < device.compute < 130 * MIB
    assert host.weights / MIB == pytest.approx(281.8, abs=0.2)


def test_demand_grows_with_context() -> None:
    case = with_tensors(gpu_case())
    shorter, longer = CaseView(case).memory.demand(4096), CaseView(case).memory.demand(8192)
    assert longer.asked - shorter.asked == pytest.approx(GIB / 2, rel=0.02)


def test_exact_layers_is_the_most_that_fits() -> None:
    case, room = with_tensors(gpu_case()), 3 * GIB
    layers = CaseView(case).memory.exact_layers(8192, room)
    assert layers is not None
    for count, fits in ((layers, True), (layers + 1, False)):
        needs = CaseView(case).memory.exact_needs(8192, count)
        assert needs is not None
        assert (needs[0].total <= room) is fits
    placement = CaseView(case).memory.fitting_placement(CaseView(case).memory.shape, 1e18, 8192)
    assert (placement.gpu_layers, placement.output_on_gpu) == (32, True)


def test_without_tensors_there_are_no_exact_needs() -> None:
    case = gpu_case()
    assert CaseView(case).memory.exact_needs(8192) is None
    assert CaseView(case).memory.exact_layers(8192, GIB) is None


@pytest.mark.parametrize(
    ("table", "metadata"),
    [
        (Table([], [(0, 1)]), {}),
        (packed_tensors([]), {"llama.block_count": 10**9}),
        (packed_tensors([]), {}),
        (packed_tensors([Tensor("x", "F32", (1,), 1)]), {"llama.block_count": 3}),
    ],
)
def test_hostile_tensor_tables_give_no_negative_needs(table: Table, metadata: dict[str, int]) -> None:
    case = with_tensors(gpu_case())
    model = msgspec.structs.replace(case.model, tensors=r(table), metadata=r(metadata))
    needs = CaseView(msgspec.structs.replace(case, model=model)).memory.exact_needs(8192)
    assert needs is None or all(n.total >= 0 for n in needs)


@pytest.mark.parametrize(
    ("version", "fuses"), [("b10586", False), ("b10900-0c1e570", True), ("b0-unknown", None), ("0.12.3", None)]
)
def test_fused_kernels_are_known_only_by_build_number(version: str, *, fuses: bool | None) -> None:
    assert CaseView(with_facts(gpu_case(), {"runtime.version": version})).memory.keeps_fused_inputs is fuses


@pytest.mark.parametrize(("version", "rotates"), [("b8623", False), ("b8624", True), ("b10900", True), ("", False)])
def test_cache_rotation_is_known_only_by_build_number(version: str, *, rotates: bool) -> None:
    assert CaseView(with_facts(gpu_case(), {"runtime.version": version})).memory.rotates_cache is rotates

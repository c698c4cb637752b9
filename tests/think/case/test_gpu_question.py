"""GPU time per token: on recorded machines, and where little is known about the GPU."""

from pathlib import Path

import msgspec
import pytest
from cases import gpu_case, r, with_facts, with_tensors, without

from unslow.commands.diagnose.target import read_stored
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import MissingFactError
from unslow.think.case.view import CaseView
from unslow.think.physics.placement import Placement
from unslow.think.physics.token_time import Side

MACHINES = Path(__file__).parents[2] / "machines"
ON_CPUS = ("cpu", "users", "lab_vulkan", "lab_mlx_lm", "lab_llama_swap")
HEALTHY = sorted(p for p in MACHINES.glob("*_healthy*") if not any(word in p.name for word in ON_CPUS))


def device(case: Case, depth: float | None = None) -> Side:
    shape = CaseView(case).memory.shape
    found = CaseView(case).physics.gpu_device(
        shape, CaseView(case).placement.read(shape), CaseView(case).speed.depth if depth is None else depth
    )
    assert found is not None
    return found


def seconds(case: Case, depth: float | None = None) -> float:
    return sum(device(case, depth).seconds.values())


def cards(*names: str, held: tuple[int, ...] = (1, 1)) -> Case:
    """The same model on these cards, of which each holds so many parts."""
    case = gpu_case()
    (one,) = case.machine.gpus.need()
    gpus = tuple(msgspec.structs.replace(one, index=n, name=r(name)) for n, name in enumerate(names))
    parts = held[: len(names)]
    part_bytes = case.model.weights_bytes.need() // sum(parts)
    buffers = [
        Buffer(device=f"CUDA{n}", kind="model", bytes=count * part_bytes, on_gpu=True) for n, count in enumerate(parts)
    ]
    seen = [SeenDevice(name=f"CUDA{n}", description=name) for n, name in enumerate(names)]
    return with_facts(
        case, {"machine.gpus": gpus, "runtime.placement.devices": seen, "runtime.memory.buffers": buffers}
    )


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda p: p.name)
def test_healthy_machine_agrees_with_its_measured_speed(folder: Path) -> None:
    (case,) = read_stored(str(folder)).cases()
    assert seconds(case) == pytest.approx(1 / CaseView(case).speed.measured_rate.need(), rel=0.35)


def test_no_layers_on_the_gpu_take_no_time() -> None:
    case = gpu_case(layers_on_gpu=0)
    assert (
        CaseView(case).physics.gpu_device(CaseView(case).memory.shape, Placement(0, output_on_gpu=False), 0.0) is None
    )


def test_shape_approximates_tensors() -> None:
    by_shape, by_tensors = device(gpu_case()), device(with_tensors(gpu_case()))
    assert by_shape.seconds.keys() == by_tensors.seconds.keys()
    assert by_shape.least_s == pytest.approx(by_tensors.least_s, rel=0.02)
    assert sum(by_shape.seconds.values()) == pytest.approx(sum(by_tensors.seconds.values()), rel=0.1)


def test_unreadable_tensors_fall_back_to_the_shape() -> None:
    assert seconds(without(with_tensors(gpu_case()), "model.metadata")) == seconds(gpu_case())


@pytest.mark.parametrize("case", [gpu_case(), with_tensors(gpu_case())], ids=["shape", "tensors"])
def test_bandwidth_is_a_lower_bound_and_depth_costs_more(case: Case) -> None:
    shallow, deep = device(case, 0.0), device(case, 30_000.0)
    assert 0 < shallow.least_s < sum(shallow.seconds.values())
    assert deep.least_s - shallow.least_s == pytest.approx(30_000 * 131_072 / 1.008e12, rel=0.01)
    assert shallow.spread > 1
    assert sum(deep.seconds.values()) > sum(shallow.seconds.values())


def test_fewer_gpu_layers_take_less_gpu_time() -> None:
    whole, half = seconds(gpu_case()), seconds(gpu_case(layers_on_gpu=17))
    assert 0.4 * whole < half < 0.7 * whole


def test_unknown_gpu_is_estimated_from_its_memory_bus() -> None:
    named = gpu_case()
    unknown = with_facts(
        named,
        {
            "machine.gpus.0.name": "NVIDIA Abacus 9000",
            "machine.gpus.0.memory_clock_max_hz": 10_501_000_000,
            "machine.gpus.0.memory_bus_bits": 384,
        },
    )
    assert device(unknown).least_s == pytest.approx(device(named).least_s, rel=0.01)
    assert seconds(unknown) == pytest.approx(seconds(named), rel=0.25)


def test_gpu_without_any_facts_is_a_missing_fact() -> None:
    with pytest.raises(MissingFactError):
        device(with_facts(gpu_case(), {"machine.gpus.0.name": "NVIDIA Abacus 9000"}))
    with pytest.raises(MissingFactError, match="which GPU"):
        device(with_facts(gpu_case(), {"machine.gpus": ()}))


@pytest.mark.parametrize("held", [(1, 1), (3, 1)])
def test_different_gpus_run_one_after_the_other(held: tuple[int, int]) -> None:
    quick, slow = "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060"
    alone = [device(cards(name)).least_s for name in (quick, slow)]
    both = device(cards(quick, slow, held=held))
    assert both.least_s == pytest.approx((held[0] * alone[0] + held[1] * alone[1]) / sum(held))
    assert both.seconds["link"] > 0
    assert "link" not in device(cards(quick)).seconds


def test_order_of_different_gpus_hardly_matters() -> None:
    """Only the learned factors are those of the first GPU's family."""
    quick, slow = "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060"
    both, turned = seconds(cards(quick, slow)), seconds(cards(slow, quick))
    assert both == pytest.approx(turned, rel=0.1)
    assert seconds(cards(quick)) < both < seconds(cards(slow)) + device(cards(quick, slow)).seconds["link"]

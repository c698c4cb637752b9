"""What the GPUs of a case take for a token: on recorded machines, and where little is known of them."""

from pathlib import Path

import msgspec
import pytest
from cases import gpu_case, r, with_facts, with_tensors, without

from unslow.commands.diagnose.target import read_stored
from unslow.facts.runtime import Buffer, SeenDevice
from unslow.facts.snapshot import Case
from unslow.facts.values import MissingFactError
from unslow.think.case.demand import read_shape
from unslow.think.case.placement import read_placement
from unslow.think.case.prediction import measured_rate
from unslow.think.case.questions import gpu_device
from unslow.think.case.work import depth_of
from unslow.think.physics.placement import Placement
from unslow.think.physics.token_time import Side

MACHINES = Path(__file__).parents[2] / "machines"
HEALTHY = sorted(p for p in MACHINES.glob("*_healthy*") if "cpu" not in p.name and "users" not in p.name)


def device(case: Case, depth: float | None = None) -> Side:
    shape = read_shape(case)
    found = gpu_device(case, shape, read_placement(case, shape), depth_of(case) if depth is None else depth)
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
    return with_facts(case, {"machine.gpus": gpus, "runtime.devices": seen, "runtime.buffers": buffers})


@pytest.mark.parametrize("folder", HEALTHY, ids=lambda p: p.name)
def test_a_healthy_machine_takes_about_what_is_expected(folder: Path) -> None:
    (case,) = read_stored(str(folder)).cases()
    assert seconds(case) == pytest.approx(1 / measured_rate(case).need(), rel=0.35)


def test_nothing_on_the_gpu_takes_nothing() -> None:
    case = gpu_case(layers_on_gpu=0)
    assert gpu_device(case, read_shape(case), Placement(0, output_on_gpu=False), 0.0) is None


def test_the_shape_stands_in_for_tensors() -> None:
    by_shape, by_tensors = device(gpu_case()), device(with_tensors(gpu_case()))
    assert by_shape.seconds.keys() == by_tensors.seconds.keys()
    assert by_shape.least_s == pytest.approx(by_tensors.least_s, rel=0.02)
    assert sum(by_shape.seconds.values()) == pytest.approx(sum(by_tensors.seconds.values()), rel=0.1)


def test_tensors_that_can_not_be_read_are_not_needed() -> None:
    assert seconds(without(with_tensors(gpu_case()), "model.metadata")) == seconds(gpu_case())


@pytest.mark.parametrize("case", [gpu_case(), with_tensors(gpu_case())], ids=["shape", "tensors"])
def test_bandwidth_alone_is_a_part_of_it_and_depth_costs_more(case: Case) -> None:
    shallow, deep = device(case, 0.0), device(case, 30_000.0)
    assert 0 < shallow.least_s < sum(shallow.seconds.values())
    assert deep.least_s - shallow.least_s == pytest.approx(30_000 * 131_072 / 1.008e12, rel=0.01)
    assert shallow.spread > 1
    assert sum(deep.seconds.values()) > sum(shallow.seconds.values())


def test_fewer_layers_take_less() -> None:
    whole, half = seconds(gpu_case()), seconds(gpu_case(layers_on_gpu=17))
    assert 0.4 * whole < half < 0.7 * whole


def test_a_card_nobody_knows_is_taken_by_its_bus() -> None:
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


def test_a_card_of_which_nothing_is_known_is_not_guessed() -> None:
    with pytest.raises(MissingFactError):
        device(with_facts(gpu_case(), {"machine.gpus.0.name": "NVIDIA Abacus 9000"}))
    with pytest.raises(MissingFactError, match="which GPU"):
        device(with_facts(gpu_case(), {"machine.gpus": ()}))


@pytest.mark.parametrize("held", [(1, 1), (3, 1)])
def test_unlike_gpus_take_turns(held: tuple[int, int]) -> None:
    quick, slow = "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060"
    alone = [device(cards(name)).least_s for name in (quick, slow)]
    both = device(cards(quick, slow, held=held))
    assert both.least_s == pytest.approx((held[0] * alone[0] + held[1] * alone[1]) / sum(held))
    assert both.seconds["link"] > 0
    assert "link" not in device(cards(quick)).seconds


def test_which_of_unlike_gpus_comes_first_matters_little() -> None:
    """Only what was learned of its family is that of the first."""
    quick, slow = "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060"
    both, turned = seconds(cards(quick, slow)), seconds(cards(slow, quick))
    assert both == pytest.approx(turned, rel=0.1)
    assert seconds(cards(quick)) < both < seconds(cards(slow)) + device(cards(quick, slow)).seconds["link"]

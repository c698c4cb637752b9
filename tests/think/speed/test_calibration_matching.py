"""A calibration holds for the machine, engine and settings it was made with, and says what has changed."""

import msgspec
import pytest

from unslow.facts.calibration import Calibration
from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.values import GB, GIB, measured, reported
from unslow.think.speed.calibration import mark_of, match_calibration, stale_because

NOW = "2026-05-01T00:00:00+00:00"


def machine(*, cpu="Ryzen 7", kernel="6.12", memory=64 * GIB, speed=50 * GB, driver="550", gpus=("RTX 4090",)):
    return Machine(
        cpu=Cpu(model=reported(cpu, "x"), physical_cores=reported(8, "x")),
        memory=Memory(total_bytes=reported(memory, "x"), read_bytes_per_s=measured(speed, "x")),
        system=System(kernel=reported(kernel, "x")),
        gpus=reported(
            tuple(Gpu(index=n, name=reported(g, "x"), driver=reported(driver, "x")) for n, g in enumerate(gpus)), "x"
        ),
    )


def calibration(**changes) -> Calibration:
    usual = {
        "unslow_version": "1",
        "taken_at": "2026-04-01T00:00:00+00:00",
        "seconds": 40.0,
        "machine": mark_of(machine()),
        "engine": "llama.cpp",
        "engine_version": "b1",
        "backend": "cpu",
        "device": "cpu",
        "threads": 8,
        "ram_read_bytes_per_s": 50 * GB,
    }
    return Calibration(**{**usual, **changes})


def runtime(**changes) -> Runtime:
    usual = {"name": reported("llama.cpp", "x"), "version": reported("b1", "x"), "threads": reported(8, "x")}
    return Runtime(**{**usual, **changes})


ON_GPU = runtime(buffers=reported([Buffer(device="CUDA0", kind="model", bytes=GIB, on_gpu=True)], "x"))


def test_the_newest_that_fits_is_used():
    old, new = calibration(), calibration(taken_at="2026-04-02T00:00:00+00:00")
    found = match_calibration([old, new], machine(), runtime(), NOW)
    assert found.usable == new
    assert match_calibration([], machine(), runtime(), NOW).calibration is None


@pytest.mark.parametrize(
    ("now", "engine", "words"),
    [
        (machine(), runtime(version=reported("b2", "x")), "llama.cpp is now b2, and was b1"),
        (machine(), runtime(threads=reported(4, "x")), "4 threads"),
        (machine(kernel="6.13"), runtime(), "the kernel is now 6.13"),
        (machine(speed=30 * GB), runtime(), "memory is now read at 30 GB/s, and was at 50"),
    ],
)
def test_what_changed_is_said(now, engine, words):
    found = match_calibration([calibration()], now, engine, NOW)
    assert words in found.stale
    assert found.usable is None
    assert found.calibration


def test_a_driver_matters_to_a_gpu_only(wording):
    newer = machine(driver="560")
    assert match_calibration([calibration()], newer, runtime(), NOW).usable
    on_gpu = calibration(backend="gpu", device="RTX 4090")
    wording(match_calibration([on_gpu], newer, ON_GPU, NOW).stale, tells=("560", "550"))


def test_age():
    assert not list(stale_because(calibration(), machine(), runtime(), "2026-09-01T00:00:00+00:00"))
    (why,) = stale_because(calibration(), machine(), runtime(), "2026-12-01T00:00:00+00:00")
    assert why.endswith("days old")
    (why,) = stale_because(calibration(taken_at="long ago"), machine(), runtime(), NOW)
    assert "long ago" in why


@pytest.mark.parametrize(
    "other", [machine(cpu="Xeon"), machine(memory=32 * GIB), machine(gpus=()), machine(gpus=("RTX 4090", "RTX 4090"))]
)
def test_another_machine_is_another_machine(other):
    assert match_calibration([calibration()], other, runtime(), NOW).calibration is None


def test_a_kernel_that_keeps_a_little_more_is_the_same_machine():
    assert match_calibration([calibration()], machine(memory=64 * GIB - 200_000_000), runtime(), NOW).usable


def test_processor_and_gpu_are_kept_apart():
    assert match_calibration([calibration()], machine(), ON_GPU, NOW).calibration is None
    assert match_calibration([calibration(backend="gpu")], machine(), runtime(), NOW).calibration is None
    assert match_calibration([calibration(backend="gpu")], machine(), ON_GPU, NOW).usable
    assert match_calibration([calibration(engine="embedded llama.cpp")], machine(), runtime(), NOW).calibration is None


def test_a_part_of_the_processor_beside_a_card_is_no_mark_of_the_machine():
    card, chip = machine().gpus.need()[0], Gpu(index=1, name=reported("UHD 770", "x"), kind=reported("integrated", "x"))
    both = msgspec.structs.replace(machine(), gpus=reported((card, chip), "x"))
    assert mark_of(both) == mark_of(machine())
    alone = msgspec.structs.replace(machine(), gpus=reported((chip,), "x"))
    assert mark_of(alone).gpus == ("UHD 770",)

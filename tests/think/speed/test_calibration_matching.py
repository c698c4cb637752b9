"""A calibration is valid for its machine, engine and settings, and says what has changed."""

import msgspec
import pytest

from unslow.facts.calibration import Calibration
from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.values import GB, GIB, measured_fact, reported_fact
from unslow.think.speed.calibration import mark_of, match_calibration, stale_because

NOW = "2026-05-01T00:00:00+00:00"


def machine(*, cpu="Ryzen 7", kernel="6.12", memory=64 * GIB, speed=50 * GB, driver="550", gpus=("RTX 4090",)):
    return Machine(
        cpu=Cpu(model=reported_fact(cpu, "x"), physical_cores=reported_fact(8, "x")),
        memory=Memory(total_bytes=reported_fact(memory, "x"), read_bytes_per_s=measured_fact(speed, "x")),
        system=System(kernel=reported_fact(kernel, "x")),
        gpus=reported_fact(
            tuple(
                Gpu(index=n, name=reported_fact(g, "x"), driver=reported_fact(driver, "x")) for n, g in enumerate(gpus)
            ),
            "x",
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
    usual = {
        "name": reported_fact("llama.cpp", "x"),
        "version": reported_fact("b1", "x"),
        "threads": reported_fact(8, "x"),
    }
    return Runtime().with_facts(**{**usual, **changes})


ON_GPU = runtime(buffers=reported_fact([Buffer(device="CUDA0", kind="model", bytes=GIB, on_gpu=True)], "x"))


def test_newest_matching_calibration_is_used():
    old, new = calibration(), calibration(taken_at="2026-04-02T00:00:00+00:00")
    found = match_calibration([old, new], machine(), runtime(), NOW)
    assert found.usable == new
    assert match_calibration([], machine(), runtime(), NOW).calibration is None


@pytest.mark.parametrize(
    ("now", "engine", "words"),
    [
        (machine(), runtime(version=reported_fact("b2", "x")), "llama.cpp is now b2 (was b1)"),
        (machine(), runtime(threads=reported_fact(4, "x")), "4 threads"),
        (machine(kernel="6.13"), runtime(), "the kernel is now 6.13"),
        (machine(speed=30 * GB), runtime(), "memory bandwidth is now 30 GB/s (was 50)"),
    ],
)
def test_changes_that_invalidate_a_calibration_are_named(now, engine, words):
    found = match_calibration([calibration()], now, engine, NOW)
    assert words in found.stale
    assert found.usable is None
    assert found.calibration


def test_driver_version_matters_only_for_gpus(wording):
    newer = machine(driver="560")
    assert match_calibration([calibration()], newer, runtime(), NOW).usable
    on_gpu = calibration(backend="gpu", device="RTX 4090")
    wording(match_calibration([on_gpu], newer, ON_GPU, NOW).stale, tells=("560", "550"))


def test_old_or_undated_calibration_is_stale():
    assert not list(stale_because(calibration(), machine(), runtime(), "2026-09-01T00:00:00+00:00"))
    (why,) = stale_because(calibration(), machine(), runtime(), "2026-12-01T00:00:00+00:00")
    assert why.endswith("days old")
    (why,) = stale_because(calibration(taken_at="long ago"), machine(), runtime(), NOW)
    assert "long ago" in why


@pytest.mark.parametrize(
    "other", [machine(cpu="Xeon"), machine(memory=32 * GIB), machine(gpus=()), machine(gpus=("RTX 4090", "RTX 4090"))]
)
def test_calibration_of_another_machine_does_not_match(other):
    assert match_calibration([calibration()], other, runtime(), NOW).calibration is None


def test_slightly_smaller_memory_is_the_same_machine():
    assert match_calibration([calibration()], machine(memory=64 * GIB - 200_000_000), runtime(), NOW).usable


def test_cpu_and_gpu_calibrations_are_separate():
    assert match_calibration([calibration()], machine(), ON_GPU, NOW).calibration is None
    assert match_calibration([calibration(backend="gpu")], machine(), runtime(), NOW).calibration is None
    assert match_calibration([calibration(backend="gpu")], machine(), ON_GPU, NOW).usable
    assert match_calibration([calibration(engine="embedded llama.cpp")], machine(), runtime(), NOW).calibration is None


def test_integrated_gpu_is_not_part_of_the_machine_mark():
    card, chip = (
        machine().gpus.need()[0],
        Gpu(index=1, name=reported_fact("UHD 770", "x"), kind=reported_fact("integrated", "x")),
    )
    both = msgspec.structs.replace(machine(), gpus=reported_fact((card, chip), "x"))
    assert mark_of(both) == mark_of(machine())
    alone = msgspec.structs.replace(machine(), gpus=reported_fact((chip,), "x"))
    assert mark_of(alone).gpus == ("UHD 770",)

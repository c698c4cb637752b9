"""Every number has a source, and numbers that can be calculated from each other agree."""

import csv
from pathlib import Path

import pytest

from unslow.catalog.device_names import find_written
from unslow.catalog.devices import Device, all_devices, all_gpus, names_by_file
from unslow.facts.values import GB, MIB

HARDWARE = Path(__file__).parents[2] / "lab" / "data" / "hardware.csv"
NOT_NUMBERS = {
    "name",
    "vendor",
    "kind",
    "family",
    "source",
    "sources",
    "also",
    "usual",
    "results",
    "driver_source",
    "narrow_cores",
}
SOURCED_APART = {"memory_bytes_per_s", "driver_bytes"}
CORRECTED = {
    ("RTX 4000 Ada", "fp16_tflops"),
    ("RTX 4000 Ada", "int8_tops"),
    ("Jetson AGX Orin 64GB", "int8_tops"),
    ("Tesla V100 PCIe", "int8_tops"),
    *((f"Apple M{n} ({cores}-core)", "fp16_tflops") for n, cores in ((3, "8/10"), (4, "8/10"))),
    *((f"Apple M{n} Pro ({cores}-core)", "fp16_tflops") for n, cores in ((3, "14/18"), (4, "16/20"))),
    *((f"Apple M{n} Max ({cores}-core)", "fp16_tflops") for n, cores in ((3, 30), (3, 40), (4, 32), (4, 40))),
    *((f"Apple M3 Ultra ({cores}-core)", "fp16_tflops") for cores in (60, 80)),
}


def rows() -> list[dict[str, str]]:
    with HARDWARE.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("device", all_devices(), ids=lambda d: d.name)
def test_every_number_has_a_source(device: Device) -> None:
    numbers = {f for f in device.__struct_fields__ if f not in NOT_NUMBERS | SOURCED_APART and getattr(device, f)}
    assert set(device.sources) == numbers
    assert all(device.sources.values())
    assert device.source
    assert bool(device.driver_bytes) == bool(device.driver_source)
    assert len(set(device.also)) == len(device.also)


@pytest.mark.parametrize("row", rows(), ids=lambda r: r["name"])
def test_every_device_of_the_table_is_found_with_matching_numbers(row: dict[str, str]) -> None:
    device = find_written(row["name"])
    assert device is not None
    columns = {
        "bandwidth_gbs": device.memory_bytes_per_s / GB,
        "fp16_tflops": device.fp16_flops_per_s / 1e12,
        "int8_tops": device.int8_ops_per_s / 1e12,
        "l2_mib": device.l2_bytes / MIB,
        "tdp_w": device.tdp_w,
        "nvlink_gbs": device.link_bytes_per_s / GB,
    }
    for column, value in columns.items():
        if row[column] and (row["name"], column) not in CORRECTED:
            assert value == pytest.approx(float(row[column]), rel=0.04), column


def test_different_rows_of_the_table_are_different_devices() -> None:
    found = [find_written(row["name"]) for row in rows()]
    assert len({device.name for device in found if device}) == len(found)


def test_rates_are_physically_plausible() -> None:
    for d in all_gpus():
        assert 2e10 < d.memory_bytes_per_s < 1e13, d.name
        assert d.fp16_acc32_flops_per_s <= d.fp16_flops_per_s, d.name
        assert d.family, d.name
        if d.fp16_flops_per_s and d.units and d.clock_hz:
            assert d.fp16_flops_per_s / (d.units * d.clock_hz) < 5000, d.name


def test_geforce_cards_halve_fp16_rate_with_fp32_accumulation() -> None:
    by_name = {d.name: d for d in all_gpus()}
    for name in ("RTX 2080 Ti", "RTX 3090", "RTX 4090", "RTX 5090", "RTX 4090 Laptop"):
        assert by_name[name].fp16_acc32_flops_per_s == pytest.approx(by_name[name].fp16_flops_per_s / 2, rel=0.01)
    for name in ("RTX A6000", "RTX 6000 Ada", "Quadro RTX 8000", "Tesla T4", "A100 80GB SXM", "RTX PRO 6000 Blackwell"):
        assert by_name[name].fp16_acc32_flops_per_s == by_name[name].fp16_flops_per_s


def test_inference_asics_have_published_results() -> None:
    with_results = {d.name: d for d in all_devices() if d.results}
    assert {"Groq LPU v1", "Cerebras WSE-3", "Taalas HC1"} <= set(with_results)
    for device in with_results.values():
        assert device.kind == "asic"
        assert all(r.tokens_per_s > 0 and r.source and r.said_by for r in device.results)


def test_only_a_chip_without_memory_has_no_bandwidth() -> None:
    assert [d.name for d in all_devices() if not d.memory_bytes_per_s] == ["Taalas HC1"]


def test_device_names_read_early_match_the_full_entries() -> None:
    short = [names for _, names in names_by_file()]
    assert short == [(d.name, *d.also) for d in all_devices() if d.kind != "cpu"]

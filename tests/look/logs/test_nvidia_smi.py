from pathlib import Path

import pynvml
import pytest

from unslow.facts.values import Unknown, reported_fact
from unslow.look.logs.gpu_facts import REASONS, reason_bits, reason_names
from unslow.look.logs.nvidia_smi import parse_gpus
from unslow.look.logs.nvidia_smi_rows import parse_bus_id, parse_enabled, parse_quantity

MACHINES = Path(__file__).parents[2] / "machines"
HEALTHY = MACHINES / "h200_llama_server_healthy_full_gpu"


def test_several_nvidia_smi_outputs_merge_into_one_gpu():
    names = ("nvidia_smi_q.txt", "machine.txt", "nvidia_smi_compute_apps.csv")
    (gpu,) = parse_gpus("\n".join((HEALTHY / name).read_text() for name in names))
    assert gpu.power_w == reported_fact(103.11, "nvidia-smi -q")
    assert gpu.mig == reported_fact(False, "nvidia-smi -q")


@pytest.mark.parametrize("path", sorted(MACHINES.glob("h200_*/machine.txt")), ids=lambda path: path.parent.name)
def test_other_commands_in_machine_txt_add_no_gpus(path: Path):
    assert len(parse_gpus(path.read_text())) == 1


@pytest.mark.parametrize(
    "path", [p for p in MACHINES.glob("h200_*/*") if "nvidia" not in p.name and p.name != "machine.txt"], ids=str
)
def test_output_of_other_programs_has_no_nvidia_gpus(path: Path):
    assert parse_gpus(path.read_text()) == ()


def test_throttle_reason_bits_match_nvml():
    assert set(REASONS) == {1 << place for place in range(9)}
    assert sum(REASONS) == pynvml.nvmlClocksEventReasonAll
    for bit, name in REASONS.items():
        constant = "nvmlClocksEventReason" + "".join(word.capitalize() for word in name.split("_"))
        assert getattr(pynvml, constant) == bit


def test_throttle_reasons_are_mapped_from_bits_names_and_labels():
    assert reason_names(0) == []
    assert reason_names(0x8000000000000041) == ["gpu_idle", "hw_thermal_slowdown", "unknown_bit_0x8000000000000000"]
    assert reason_bits(reason_names(0x405)) == 0x405
    assert reason_bits(["moon_phase"]) is None
    assert reason_bits(["unknown_bit_moon"]) is None


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("81 %", "%", 0.81),
        ("81", "%", 0.81),
        ("16x", "", 16),
        ("-8 C", "C", -8),
        ("2 GiB", "MiB", 2 << 30),
        ("1.5W", "W", 1.5),
    ],
)
def test_quantities_with_units_are_parsed(text: str, unit: str, value: float):
    assert parse_quantity(text, unit, "there") == reported_fact(value, "there")


@pytest.mark.parametrize("text", ["", "N/A", "[N/A]", "[Insufficient Permissions]", "ERR!", "soon"])
def test_na_and_errors_are_unknown_quantities(text: str):
    assert isinstance(parse_quantity(text, "W", "there"), Unknown)
    assert isinstance(parse_enabled(text, "there"), Unknown)
    assert isinstance(parse_bus_id(text, "there"), Unknown)

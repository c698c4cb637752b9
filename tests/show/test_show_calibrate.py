"""A calibration in the terminal and as JSON."""

import json
from pathlib import Path

import msgspec
import pytest

from unslow.facts.calibration import Calibration, KeptCalibration, KeptReport, Scale, parse_calibration
from unslow.facts.errors import UserError
from unslow.show.calibrate import render_calibration, render_forgotten, render_kept

RECORDED = Path(__file__).parents[1] / "think" / "speed" / "recorded_xeon.json"


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return msgspec.convert(json.loads(RECORDED.read_text())["calibration"], Calibration)


def shown(calibration: Calibration, width: int = 100) -> str:
    return render_calibration(calibration, "terminal", width=width, color=False)


def test_calibration_shows_costs_per_type_and_models_within_the_width(calibration, wording):
    text = shown(calibration)
    wording(text, tells=("CALIBRATED", "llama.cpp", "Q4_K", "GB/s", "Q8_0"))
    assert max(map(len, text.splitlines())) <= 100
    assert max(map(len, shown(calibration, 60).splitlines())) <= 60


def test_disturbed_calibration_says_what_disturbed_it(calibration, wording):
    text = shown(msgspec.structs.replace(calibration, disturbed="others used 1.0 processors meanwhile (cc1)"))
    assert "DISTURBED" in text
    wording(text, about="1.0")


def test_gpu_calibration_shows_its_single_scale_factor(calibration, wording):
    scale = Scale(model="llama\x1b[2J-8b", measured_decode_s=0.01, expected_decode_s=0.008)
    text = shown(msgspec.structs.replace(calibration, rates=None, points=(), backend="gpu", device="H200", scale=scale))
    wording(text, tells=("100", "125", "0.80"))
    assert "\x1b" not in text


def test_calibration_json_can_be_parsed_back(calibration):
    text = render_calibration(calibration, "json", width=80, color=False)
    assert json.loads(text)["schema"] == "unslow.calibration/1"
    assert parse_calibration(text.encode(), "x") == calibration


def test_list_shows_current_stale_and_broken_calibrations(calibration, wording):
    kept = KeptReport(
        folder="/data",
        calibrations=(
            KeptCalibration(path="/data/a.json", calibration=calibration),
            KeptCalibration(path="/data/b.json", calibration=calibration, stale=("the kernel is now 7 (was 6)",)),
            KeptCalibration(path="/data/c.json", problem="/data/c.json is not a calibration"),
        ),
    )
    text = render_kept(kept, "terminal", width=100, color=False)
    wording(text, tells=("/data/a.json", "/data/b.json", "the kernel is now 7", "✗ /data/c.json"))
    assert len(json.loads(render_kept(kept, "json", width=100, color=False))["calibrations"]) == 3
    none = KeptReport(folder="/data", calibrations=())
    wording(render_kept(none, "terminal", width=100, color=False), tells="/data")


def test_removed_calibrations_are_confirmed():
    assert render_forgotten(["/a", "/b"], "terminal") == "removed /a\nremoved /b"
    assert json.loads(render_forgotten(["/a"], "json")) == {"forgotten": ["/a"]}


def test_unknown_format_is_refused():
    with pytest.raises(UserError, match="'xml'"):
        render_calibration.check_format("xml")

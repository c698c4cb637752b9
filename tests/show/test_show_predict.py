import re

import msgspec
import pytest

from unslow.commands.predict import PredictRequest
from unslow.commands.predict.speeds import answer
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.show.predict import render_predict
from unslow.think.speed.report import ModelShown, PredictionReport


@pytest.fixture(scope="module")
def report() -> PredictionReport:
    flags = {"model": "qwen3-8b", "quant": "Q6_K", "devices": ["RTX 5090"], "explain": True, "draft": "qwen3-0.6b"}
    return answer(LiveSystem(), PredictRequest.from_flags(flags))


@pytest.mark.parametrize("width", [40, 80, 100, 120])
def test_lines_fit_the_terminal_and_name_every_part(report: PredictionReport, width: int) -> None:
    text = render_predict(report, "terminal", width=width, color=False)
    assert max(len(line) for line in text.splitlines()) <= width
    for word in ("decode", "ceiling", "first token", "if halved", "compute becomes the limit", "Q4_K_M", "bound by"):
        assert width < 80 or word in text


def test_binding_limit_and_overlap_are_shown(report: PredictionReport, wording) -> None:
    text = render_predict(report, "terminal", width=100, color=False)
    (wall,) = (wall.part for wall in report.decode.walls if wall.binds)
    wording(re.search(rf", (bound by {wall}.*)", text)[1])
    assert "overlap" in text
    assert "> Q6_K" in text


def test_escape_sequences_are_removed() -> None:
    model = ModelShown(name="\x1b[31mred", quant="?", source="x", parameters=1, weights_bytes=1, layers=1)
    report = PredictionReport(unslow_version="0", model=model, reason="because\x1b", hint="try")
    assert "\x1b" not in render_predict(report, "terminal", width=80, color=False)


def test_json_decodes_to_the_same_report(report: PredictionReport) -> None:
    text = render_predict(report, "json", width=80, color=False)
    assert msgspec.json.decode(text, type=PredictionReport) == report


def test_unknown_format_is_refused() -> None:
    with pytest.raises(UserError):
        render_predict.check_format("xml")

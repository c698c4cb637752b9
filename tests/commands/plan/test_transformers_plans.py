"""Plans for Transformers: of recorded programs, and of models by name."""

from pathlib import Path

import pytest

from unslow.commands.diagnose.target import read_stored
from unslow.commands.plan import PlanRequest
from unslow.commands.plan.safetensors import plan_safetensors
from unslow.facts.snapshot import Case
from unslow.look.system.live import LiveSystem
from unslow.think.case.view import CaseView
from unslow.think.plan.report import PlanReport

MACHINES = Path(__file__).parents[2] / "machines"


def plan(case: Case | None = None, **flags: object) -> PlanReport:
    request = PlanRequest.from_flags({"runtime": "transformers", **flags})
    return plan_safetensors(LiveSystem(), request, CaseView(case) if case else None)


def changes(report: PlanReport) -> dict[str, object]:
    assert report.recommended is not None
    return {change.knob: change.value for change in report.options[report.recommended].changes}


def test_named_model_gets_a_static_cache() -> None:
    report = plan(model="llama 3.1 8b", devices=["RTX 4090"])
    assert report.verdict == "better"
    assert changes(report)["cache"] == "static"
    assert report.searched
    assert report.searched.combinations >= 16


def test_float32_weights_become_bfloat16() -> None:
    report = plan(model="llama 3.2 1b", quant="F32", devices=["RTX 4090"])
    assert changes(report)["weights_type"] == "bfloat16"


def test_unknown_gpu_gives_cannot_tell() -> None:
    report = plan(model="llama 3.1 8b", devices=["24GB"])
    assert report.verdict == "cannot_tell"


def recorded(name: str) -> Case:
    return next(read_stored(str(MACHINES / name)).cases())


def test_eager_program_gets_compile_and_a_static_cache() -> None:
    report = plan(recorded("h200_transformers_8b_eager"), context=512, prompt=64, answer=64)
    assert report.verdict == "better"
    assert report.current
    assert report.current.speed
    assert report.current.speed.decode_tokens_per_s.mid == pytest.approx(37, rel=0.3)  # the fourth call: 1.69 s for 63
    assert set(changes(report)) == {"cache", "compile"}
    assert (report.options[report.recommended or 0].speedup or 0) > 3
    assert any("reported by the server" in note for note in report.notes)


def test_compiled_program_has_nothing_to_gain() -> None:
    report = plan(recorded("h200_transformers_8b_static"), context=512, prompt=64, answer=64)
    assert report.verdict == "already_best"
    assert not changes(report)

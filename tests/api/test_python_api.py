import json
import subprocess
import sys
from pathlib import Path

import pytest

import unslow

ROOT = Path(__file__).parents[2]
SLOW = ROOT / "tests" / "machines" / "h200_llama_server_gpu_layers_set_too_low"
HEALTHY = ROOT / "tests" / "machines" / "h200_llama_server_healthy_full_gpu"


class Notes:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def step(self, text: str, share: float) -> None:
        self.lines.append(text)


def test_importing_unslow_imports_nothing_else():
    code = "import sys, unslow; print(*sorted(m for m in sys.modules if 'unslow' in m or m in ('msgspec', 'rich')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["unslow"]


def test_every_public_name_exists_and_is_listed():
    assert set(unslow.__all__) <= set(dir(unslow))
    assert all(getattr(unslow, name) is not None for name in unslow.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="diagnoze"):
        _ = unslow.diagnoze


def test_a_stored_machine_is_diagnosed_by_path_and_by_snapshot():
    report = unslow.diagnose(SLOW)
    assert report.subjects[0].findings[0].cause == "gpu_layers_set_too_low"
    assert unslow.diagnose(unslow.collect(SLOW)) == report
    assert "SLOW" in unslow.to_text(report).splitlines()[0]
    assert json.loads(unslow.to_json(report))["schema"] == "unslow.report/1"


def test_a_goal_applies_to_a_snapshot():
    seen = unslow.collect(HEALTHY)
    assert unslow.diagnose(seen).subjects[0].verdict == "normal"
    assert "100000" in unslow.diagnose(seen, goal=100_000).subjects[0].summary.replace(",", "")


def test_a_snapshot_is_saved_and_diagnosed_again(tmp_path):
    unslow.save(unslow.collect(HEALTHY), tmp_path / "seen.json")
    assert unslow.diagnose(tmp_path / "seen.json").subjects[0].verdict == "normal"


def test_a_view_renders_as_text_and_html():
    view = unslow.view(SLOW, masked=True)
    assert view.masked
    assert view.subjects[0].speeds
    assert "gpu_layers_set_too_low" in unslow.to_text(view)
    assert "<title>A slow day" in unslow.to_html(view, title="A slow day")


def test_quick_and_seconds_exclude_each_other(wording):
    with pytest.raises(unslow.UserError) as caught:
        unslow.diagnose(SLOW, quick=True, seconds=20)
    wording((caught.value.message, caught.value.hint), tells=("--quick", "--seconds"))


def test_triage_of_a_text_and_of_its_file_agree(tmp_path):
    text = "ollama ps says 48%/52% CPU/GPU for qwen3:32b, and it is slow: 7 tokens/s"
    (tmp_path / "report.txt").write_text(text, "utf-8")
    notes = Notes()
    by_file, by_text = unslow.triage(tmp_path / "report.txt", progress=notes), unslow.triage(text)
    assert by_file.subjects[0].findings[0].cause == by_text.subjects[0].findings[0].cause
    assert "reading report.txt" in notes.lines


def test_fit_takes_what_the_command_takes():
    whole = unslow.fit("qwen3-8b", device="RTX 4090", quant="Q4_K_M")
    assert (whole.verdict, whole.fits) == ("fits", True)
    long = unslow.fit("qwen3-8b", device="RTX 4090", quant="Q4_K_M", context="128k", kv_type="q8_0", ram="64GB")
    assert long.devices[0].kv_bytes > 5 * whole.devices[0].kv_bytes
    two = unslow.fit("llama-3.3-70b", device=["RTX 4090", "RTX 3090"], quant="Q4_K_M", tensor_split=[1, 1])
    assert [memory.name for memory in two.devices] == ["RTX 4090", "RTX 3090"]
    assert "FITS" in unslow.to_text(whole)


def test_predict_takes_what_the_command_takes():
    report = unslow.predict("qwen3-8b", device="RTX 4090", quant="Q4_K_M", context="8k", gpu_layers="all", ram="64GB")
    assert report.decode is not None
    assert report.decode.tokens_per_s.low < report.decode.tokens_per_s.mid < report.decode.tokens_per_s.high
    slower = unslow.predict("qwen3-8b", device="RTX 4090", quant="Q4_K_M", context="8k", gpu_layers=10)
    assert slower.decode is not None
    assert slower.decode.tokens_per_s.mid < report.decode.tokens_per_s.mid


def test_plan_takes_what_the_command_takes(wording):
    notes = Notes()
    report = unslow.plan(
        "qwen3-8b", device="RTX 3060", ram="64GB", quant="Q4_K_M", context=8192, prompt="1k", progress=notes
    )
    assert report.recommended is not None
    assert (report.goal.context, report.goal.prompt_tokens) == (8192, 1024)
    wording(notes.lines, tells="qwen3-8b")
    with pytest.raises(unslow.UserError, match="needs a minimum speed"):
        unslow.plan("qwen3-8b", device="RTX 3060", goal="context")


def test_check_and_explain_work_from_python():
    assert unslow.check("Llama 3.3 70B Q4_K_M on an RTX 4090 at 72 tok/s").verdict == "impossible"
    assert len(unslow.check("70B Q4 fits in 24 GB. 8B Q4 fits in 24 GB.", several=True).claims) == 2
    page = unslow.explain("weights-spill-to-ram")
    assert page.id == "weights_spill_to_ram"
    assert page in unslow.causes()
    assert json.loads(unslow.to_json(page))["text"] == page.text
    assert page.title in unslow.to_text(page)
    with pytest.raises(unslow.UserError, match="unknown cause"):
        unslow.explain("bad_luck")


def test_models_of_a_folder_are_listed(tmp_path):
    (tmp_path / "cut.gguf").write_bytes(b"GGUF")
    found = unslow.models([tmp_path])
    assert any(model.path == str(tmp_path / "cut.gguf") and model.broken for model in found.models)
    assert "is truncated" in unslow.to_text(found)


def test_devices_and_cost_work_from_python(wording):
    compared = unslow.devices(["RTX 3090", "2x RTX 3090"], model="qwen3-8b", quant="Q4_K_M", price=["RTX 3090=700"])
    assert [one.name for one in compared.devices] == ["RTX 3090", "2x RTX 3090"]
    owned = unslow.cost("qwen3-8b", device="RTX 3090", tokens_per_day=200_000, electricity=0.3, price=["RTX 3090=700"])
    assert json.loads(unslow.to_json(owned))["schema"] == "unslow.cost/1"
    assert "RTX 3090" in unslow.to_text(owned)
    assert "2x RTX 3090" in unslow.to_text(compared)
    with pytest.raises(unslow.UserError) as caught:
        unslow.cost("qwen3-8b", device="RTX 3090")
    wording(caught.value.hint, tells="--tokens-per-day")


@pytest.mark.real
def test_choose_and_tiers_work_from_python():
    chosen = unslow.choose("qwen3-32b", budget=1500, goal="20 tok/s", price=["RTX 3090=700"])
    assert chosen.chosen is not None
    small, large = unslow.tiers("8,24", unified="64", rows=2).tiers[:2]
    assert small.runs
    assert large.runs


def test_an_object_without_text_form_is_a_user_error():
    with pytest.raises(unslow.UserError, match="Snapshot"):
        unslow.to_text(unslow.Snapshot(unslow_version="0"))

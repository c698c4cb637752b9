import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from unslow.__main__ import main
from unslow.think.speed.report import PredictionReport

TABLE = "model,hardware,test,quant\nLlama 3.1 8B,RTX 4090,tg128,Q4_K_M\nnobody,RTX 4090,tg128,\n"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["predict", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_flags_give_one_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "llama-3.3-70b", "--quant", "Q4_K_M", "--device", "RTX 4090")
    assert (status, err) == (0, "")
    assert "as many as fit" in out
    assert "80 % interval" in out
    assert "host memory reads" in out
    assert "configurations on" in out


def test_every_flag_is_accepted_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--quant Q8_0 --gpus 2 --depth 8192 --gpu-layers auto --kv-type q8_0 --runtime llama.cpp --backend cuda"
    more = "--split tensor --prompt 2048 --ubatch 1024 --no-flash-attention --no-graphs --threads 8 --json"
    draft = "--ram-bandwidth 80GB/s --draft qwen3-0.6b --draft-tokens 4 --acceptance 0.7 --explain"
    status, out, _ = run(capsys, "qwen3-8b", "--device", "RTX 3090", *f"{words} {more} {draft}".split())
    assert status == 0
    shown = json.loads(out)
    assert shown["schema"] == "unslow.prediction/1"
    assert shown["settings"]["graphs"] is shown["settings"]["flash_attention"] is False
    assert shown["place"]["gpus"] == 2
    assert shown["speculative"]["draft_tokens"] == 4
    assert msgspec.json.decode(out, type=PredictionReport).explain


def test_unpredictable_device_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "qwen3-8b", "--device", "24GB")
    assert (status, err) == (3, "")
    assert "CANNOT TELL" in out
    status, out, _ = run(capsys, "qwen3-8b", "--device", "24GB", "--json")
    assert (status, json.loads(out)["decode"]) == (3, None)


@pytest.mark.parametrize(
    "words",
    [
        [], ["no-such-model"], ["/no/such/file.gguf"], ["qwen3-8b", "--device", "no such card"], ["--csv", "/no/file"],
        ["qwen3-8b", "--csv", "x"], ["--csv", "x", "--json"], ["qwen3-8b", "--out", "x"], ["qwen3-8b", "--batch", "-3"],
        ["qwen3-8b", "--format", "xml"], ["qwen3-8b", "--ram-bandwidth", "fast"], ["--csv", "/tmp"], ["--csv", ""],
    ],
)  # fmt: skip
def test_invalid_arguments_exit_2_with_a_hint(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert "hint:" in err
    assert "Traceback" not in err


def test_table_is_read_from_and_written_to_pipes() -> None:
    words = [sys.executable, "-m", "unslow", "predict", "--csv", "-"]
    done = subprocess.run(words, input=TABLE, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    first, second = csv.DictReader(io.StringIO(done.stdout))
    assert float(first["predicted_low"]) < float(first["predicted_tok_s"]) < float(first["predicted_high"])
    assert second["reason"]
    assert "1 of 2 rows predicted" in done.stderr


def test_table_without_predictions_exits_3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text("model,hardware,test\nnobody,RTX 4090,tg128\n")
    status, _, _ = run(capsys, "--csv", str(source), "--out", str(tmp_path / "out.csv"))
    assert status == 3
    source.write_text("model,hardware,test\n")
    status, _, _ = run(capsys, "--csv", str(source), "--out", str(tmp_path / "out.csv"), "--force")
    assert status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--device", "RTX 4090"], "--device"),
        (["qwen3-8b"], "MODEL"),
        (["--no-flash-attention"], "--flash-attention"),
        (["--json"], "--format"),
        (["--acceptance", "0"], "--acceptance"),
    ],
)
def test_table_excludes_other_settings(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str, wording
) -> None:
    status, _, err = run(capsys, "--csv", "-", *words)
    assert status == 2
    wording(err, tells=said)

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lab.memory_rows import header_path

from unslow.__main__ import main

HEADER = str(header_path("llama8b"))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["fit", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_exit_status_is_0_for_fits_and_1_for_partly(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, HEADER, "--device", "RTX 4090")
    assert (status, err) == (0, "")
    assert "FITS" in out
    status, out, _ = run(capsys, "llama-3.3-70b", "--quant", "Q4_K_M", "--device", "RTX 4090")
    assert status == 1
    assert "FITS PARTLY" in out


def test_flags_reach_the_json_report(capsys: pytest.CaptureFixture[str]) -> None:
    words = "--runtime llama_cpp --device H200 --context 16384 --kv-type q8_0 --ubatch 2048 --parallel 4"
    flags = f"{words} --kv-unified --flash-attention on --gpu-layers 20 --json".split()
    status, out, _ = run(capsys, HEADER, *flags)
    shown = json.loads(out)
    assert status == 0
    assert shown["gpu_layers"] == 20
    assert shown["settings"]["ubatch"] == 2048
    assert shown["settings"]["outputs"] == 4
    assert shown["devices"][0]["total_bytes"] == sum(
        shown["devices"][0][part] for part in ("weights_bytes", "kv_bytes", "compute_bytes")
    )
    assert shown["host"]["weights_bytes"] > 10**9


def test_header_is_read_from_standard_input() -> None:
    words = [sys.executable, "-m", "unslow", "fit", "-", "--device", "24GB", "--json"]
    with Path(HEADER).open("rb") as file:
        done = subprocess.run(words, stdin=file, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["model"]["architecture"] == "llama"


@pytest.mark.parametrize(
    "words",
    [
        ["/no/such/file.gguf"], ["no-such-model-at-all"], [__file__], [HEADER, "--device", "no such card"],
        [HEADER, "--context", "-5"], [HEADER, "--kv-type", "q9"], [HEADER, "--override-tensor", "x"],
        [HEADER, "--format", "xml"], [HEADER, "--margin", "much"],
    ],
)  # fmt: skip
def test_invalid_arguments_exit_2_with_a_hint(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    status, out, err = run(capsys, *words)
    assert status == 2
    assert out == ""
    assert "hint:" in err
    assert "Traceback" not in err


def test_catalog_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--list", "qwen3")
    assert status == 0
    assert "Qwen3-30B-A3B" in out
    assert "Llama" not in out
    status, out, _ = run(capsys, "--list", "--json")
    assert len(json.loads(out)) > 200


def test_missing_model_suggests_list(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys)
    assert status == 2
    assert "--list" in err

import json
from pathlib import Path

import pytest

from unslow.__main__ import main

MACHINES = Path(__file__).parents[1] / "machines"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["plan", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_recorded_server_gets_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, str(MACHINES / "lab_cpu_threads_too_few"))
    assert status == 0
    assert "not set (was 1)" in out
    assert "measured" in out
    assert "llama-server -m /srv/models/small.gguf" in out
    assert "searching settings" in err


def test_healthy_server_has_nothing_to_gain(capsys: pytest.CaptureFixture[str], wording) -> None:
    status, out, err = run(capsys, str(MACHINES / "lab_cpu_healthy_small"), "-q")
    assert (status, err) == (0, "")
    assert "NOTHING TO GAIN" in out
    wording(out, about="5 %")


def test_unsupported_runtime_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, str(MACHINES / "built_exllama_near_its_bandwidth"), "--json")
    assert status == 3
    assert json.loads(out)["verdict"] == "cannot_tell"


def test_named_model_gets_a_complete_command(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "smollm2-135m", "--device", "RTX 4090", "--ram", "32GB", "--json")
    report = json.loads(out)
    assert status == 0
    lines = report["options"][report["recommended"]]["commands"]
    assert any("llama-server" in line and "-c 8192" in line for line in lines)


def test_folders_and_missing_files_exit_2(capsys: pytest.CaptureFixture[str], wording) -> None:
    status, _, err = run(capsys, str(MACHINES))
    assert status == 2
    wording(err)
    status, _, err = run(capsys, "there-is-no-such.json")
    assert status == 2
    assert "no such file" in err

import io
import json
import sys
from pathlib import Path

import pytest

from unslow.__main__ import main
from unslow.facts.snapshot import parse_snapshot

SLOW = "Ollama 0.6.2, RTX 3090.\nAfter updating from 0.6.1 to 0.6.2 generation is slow: about 7 tok/s, was 31.\n"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["triage", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


@pytest.fixture
def slow(tmp_path: Path) -> str:
    (tmp_path / "report.txt").write_text(SLOW)
    return str(tmp_path / "report.txt")


def test_file_is_triaged_with_line_references(capsys: pytest.CaptureFixture[str], slow: str) -> None:
    status, out, err = run(capsys, slow)
    assert status == 1
    assert out.startswith(" SLOW ")
    assert "runtime_version_regressed" in out
    assert "report.txt:2" in out
    assert "reading report.txt" in err
    assert run(capsys, slow, "-q")[2] == ""


def test_standard_input_is_triaged_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SLOW.encode())))
    status, out, _ = run(capsys, "-", "--json", "-q")
    report = json.loads(out)
    assert (status, report["subjects"][0]["verdict"]) == (1, "slow")
    assert report["subjects"][0]["findings"][0]["cause"] == "runtime_version_regressed"


def test_markdown_has_a_heading_and_shell_blocks(capsys: pytest.CaptureFixture[str], slow: str) -> None:
    _, out, _ = run(capsys, slow, "--format", "markdown", "-q")
    assert out.startswith("### Slow, and why")
    assert "```sh" in out


def test_text_without_evidence_exits_3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It is slow. Help!")
    assert run(capsys, str(tmp_path / "a.txt"), "-q")[0] == 3


def test_saved_facts_can_be_diagnosed(capsys: pytest.CaptureFixture[str], slow: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    run(capsys, slow, "-q", "--save", str(kept))
    snapshot = parse_snapshot(kept.read_bytes())
    assert snapshot.subjects[0].runtime.name.need() == "Ollama"
    assert main(["diagnose", str(kept)]) == 1
    assert "runtime_version_regressed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no-such-file.log"], "No such file"),
        (["."], "is a folder"),
        (["x", "--format", "poem"], "unknown format 'poem'"),
    ],
)
def test_invalid_arguments_exit_2(capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


def test_empty_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    status, _, err = run(capsys, str(tmp_path / "empty.log"))
    assert status == 2
    assert "empty.log is empty" in err

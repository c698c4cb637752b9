import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from unslow.__main__ import main

CLAIM = "Llama 3.3 70B Q4_K_M on an RTX 4090 at 72 tok/s"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["check", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


@pytest.mark.parametrize(
    ("claim", "status", "word"),
    [
        (CLAIM, 1, "IMPOSSIBLE"),
        ("Qwen3-8B Q6_K on an RTX 5090: 161 tok/s", 0, "POSSIBLE"),
        ("Llama 3.3 70B Q4_K_M runs on an RTX 4090", 1, "UNLIKELY"),
        ("Llama 3.3 70B at 20 tok/s", 3, "CANNOT TELL"),
        ("-ngl 33 for a 70B puts everything on the GPU", 1, "IMPOSSIBLE"),
    ],
)
def test_exit_status_follows_the_verdict(
    capsys: pytest.CaptureFixture[str], claim: str, status: int, word: str
) -> None:
    got, out, err = run(capsys, claim)
    assert (got, err) == (status, "")
    assert out.startswith(f" {word} ")


def test_claim_needs_no_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *CLAIM.split())[0] == 1


def test_json_has_subject_and_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, CLAIM, "--json")
    shown = json.loads(out)
    assert (status, shown["schema"], shown["verdict"]) == (1, "unslow.check/1", "impossible")
    (claim,) = shown["claims"]
    assert claim["subject"] == {"model": "Llama-3.3-70B", "quant": "Q4_K_M", "device": "RTX 4090"}
    assert len(claim["arithmetic"]) == 3


def test_file_is_judged_sentence_by_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = tmp_path / "guide.md"
    text.write_text(f"# Speeds\n\n{CLAIM}. Qwen3-8B Q6_K on an RTX 5090 reaches 161 tok/s.\n", "utf-8")
    status, out, _ = run(capsys, "--file", str(text))
    assert status == 1
    assert "2 claims: 1 possible, 1 impossible" in out
    assert "161" not in out
    assert "161" in run(capsys, "--file", str(text), "--all")[1]


@pytest.mark.parametrize("flags", [["-"], ["--file", "-"]])
def test_claim_is_read_from_standard_input(flags: list[str]) -> None:
    words = [sys.executable, "-m", "unslow", "check", *flags]
    done = subprocess.run(words, input=CLAIM.encode(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert b"IMPOSSIBLE" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([""], "no claim given"),
        ([], "no claim given"),
        (["hello"], "nothing to check"),
        (["a" * 5000], "at most 2,000 characters"),
        (["\x00\x01"], "not a text"),
        (["--file", "/no/such/file"], "/no/such/file"),
        ([CLAIM, "--file", "x"], "give only one of them"),
        ([CLAIM, "--format", "xml"], "xml"),
    ],
)
def test_invalid_input_is_one_line_with_a_hint(capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert says in err
    assert "hint:" in err


def test_binary_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"GGUF\0\1\2" * 100)
    status, _, err = run(capsys, "--file", str(tmp_path / "x.bin"))
    assert status == 2
    assert "is not text" in err


def test_closed_standard_input_exits_2(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert run(capsys, "-")[0] == 2


def test_binary_standard_input_exits_2(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\x00" * 50)))
    assert run(capsys, "-")[0] == 2


def test_escape_sequences_of_a_claim_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    claim = f"{CLAIM} \x1b]52;c;eA==\x07\x9b2J\u202e"
    for words in ([claim], [claim, "--json"]):
        _, out, err = run(capsys, *words)
        assert not set("\x1b\x07\x9b\u202e") & set(out + err)

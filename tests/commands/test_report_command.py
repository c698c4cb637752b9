"""`unslow report` from its arguments to its files."""

import pytest
from recorded_machines import MACHINES

from unslow.__main__ import main

SLOW = str(MACHINES / "h200_llama_server_gpu_layers_set_too_low")


def test_report_writes_a_page_and_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", SLOW]) == 0
    page = (tmp_path / "unslow-report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count('<template class="ready"') > 20  # every place of every slider
    assert len(page.encode()) < 6_000_000
    out = capsys.readouterr()
    assert out.out == ""
    assert "wrote unslow-report.html (" in out.err
    assert "masked" in out.err


def test_standard_output_contains_only_the_report(capsysbinary):
    assert main(["report", SLOW, "-o", "-", "--format", "markdown", "-q"]) == 0
    out = capsysbinary.readouterr()
    assert b"### Slow, and why" in out.out
    assert out.err == b""


def test_diagnose_supports_html(capsys):
    assert main(["diagnose", SLOW, "--format", "html", "-q"]) == 1
    assert capsys.readouterr().out.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--format", "pdf"], "unknown report format 'pdf'"),
        (["--bench", "not-there.json"], "not-there.json"),
        (["--verify", "not-there.json"], "not-there.json"),
        (["-o", "not/there/page.html"], "not/there does not exist"),
    ],
)
def test_invalid_arguments_are_refused_before_measuring(words, said, capsys):
    assert main(["report", "http://127.0.0.1:9", *words]) == 2
    assert said in capsys.readouterr().err

"""The buyer's commands: flags in, a report and an exit status out."""

import json
import re

import pytest

from unslow.__main__ import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main([*words])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_devices_uses_the_given_price(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("devices", "RTX 3090", "RTX 4060", "--model", "qwen3-8b", "--price", "RTX 3090=650", "-q", "--json")
    status, out, err = run(capsys, *words)
    assert (status, err) == (0, "")
    shown = json.loads(out)
    assert shown["schema"] == "unslow.devices/1"
    assert shown["devices"][0]["price"]["kind"] == "yours"


def test_choose_exits_1_when_nothing_meets_the_goal(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("choose", "--model", "qwen3-8b", "--budget", "800", "--among", "RTX 3090", "-q", "--goal")
    status, out, _ = run(capsys, *words, "20 tok/s", "--json")
    assert status == 0
    assert json.loads(out)["chosen"]["rig"]["device"] == "RTX 3090"
    assert run(capsys, *words, "900")[0] == 1


def test_cost_exits_1_when_the_use_exceeds_the_device(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("cost", "--model", "qwen3-8b", "--device", "RTX 3090", "--rent", "RTX 3090=0.2/h", "-q", "--json")
    status, out, _ = run(capsys, *words, "--tokens-per-day", "100k")
    assert status == 0
    assert json.loads(out)["use"]["tokens_per_day"] == 100_000
    assert run(capsys, *words, "--tokens-per-day", "900m")[0] == 1


def test_tiers_lists_the_given_memory_size(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "tiers", "--memory", "8", "--rows", "1", "-q", "--json")
    assert status == 0
    assert json.loads(out)["tiers"][0]["memory_bytes"] == 8 * 2**30


@pytest.mark.parametrize(
    "words",
    [
        ("devices", "nobody"), ("choose", "--model", "qwen3-8b", "--goal", "fast"),
        ("cost", "--model", "qwen3-8b", "--device", "RTX 3090"), ("tiers", "--memory", "much"),
        ("devices", "--format", "html"),
    ],
)  # fmt: skip
def test_invalid_arguments_exit_2_with_a_hint(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    status, _, err = run(capsys, *words)
    assert status == 2
    assert "hint" in err


def test_devices_counts_the_catalog_and_notes_only_shown_columns(capsys, monkeypatch):
    assert main(["devices", "-q"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert re.search(r"7\s+devices of \d{3} in the catalog \(--all lists them\)", first), first
    for columns in ("60", "120"):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["devices", "RTX 3090", "--model", "qwen3-8b", "-q"]) == 0
        shown = capsys.readouterr().out
        assert ("TOK/J" in shown.split("YEAR")[0]) == ("per joule" in shown) == (columns == "120")

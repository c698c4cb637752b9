import io
import json
import sys
from pathlib import Path

import pytest
from lab.replay import serve
from plans import option, plan, written

from unslow.__main__ import main
from unslow.commands.apply.changes import shown_diff
from unslow.commands.apply.prepare import restart_server
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem

DERIVED = "qwen3:8b-unslow"


def names(url: str) -> list[str]:
    return [model["name"] for model in LiveSystem().request("GET", f"{url}/api/tags").json()["models"]]


@pytest.fixture
def ollama_plan(tmp_path: Path) -> str:
    return written(
        tmp_path, plan("ollama", "qwen3:8b", option("short and mapped", context_length=8192, load_mode="none"))
    )


def run(*words: str) -> int:
    return main([str(word) for word in words])


def test_derived_model_is_previewed_created_listed_and_removed(ollama_plan, tmp_path, capsys):
    with serve("ollama") as url:
        common = ("--target", url, "--journal", tmp_path / "j")
        assert run("apply", ollama_plan, *common, "--dry-run") == 0
        shown = capsys.readouterr().out
        assert "WOULD CHANGE" in shown
        assert f"create the model {DERIVED} from qwen3:8b (kept)" in " ".join(shown.split())
        assert names(url) == ["qwen3:8b"]
        assert run("apply", ollama_plan, *common, "--yes", "--json") == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["outcome"], report["how"]) == ("changed", "ollama")
        assert report["models"][0]["parameters"]["use_mmap"] is False
        assert names(url) == ["qwen3:8b", DERIVED]
        assert run("undo", "--list", "--journal", tmp_path / "j") == 0
        assert report["change"] in capsys.readouterr().out
        assert run("undo", report["change"], "--yes", "--journal", tmp_path / "j") == 0
        assert "UNDONE" in capsys.readouterr().out
        assert names(url) == ["qwen3:8b"]
        assert run("undo", "--yes", "--journal", tmp_path / "j", "--json") == 0
        assert json.loads(capsys.readouterr().out)["outcome"] == "nothing"


def test_second_derived_model_needs_another_name(ollama_plan, tmp_path, capsys):
    with serve("ollama") as url:
        common = ("--target", url, "--journal", tmp_path / "j", "--yes")
        assert run("apply", ollama_plan, *common) == 0
        told = "".join(capsys.readouterr().out.split())
        assert f"--journal{tmp_path / 'j'}" in told
        assert run("apply", ollama_plan, *common) == 2
        assert "--name" in capsys.readouterr().err
        assert run("apply", ollama_plan, *common, "--name", "mine") == 0
        assert names(url) == ["qwen3:8b", DERIVED, "mine:latest"]


def test_nothing_is_changed_without_a_terminal_or_yes(ollama_plan, tmp_path, capsys, monkeypatch):
    with serve("ollama") as url:
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        assert run("apply", ollama_plan, "--target", url, "--journal", tmp_path / "j") == 2
        assert "--yes" in capsys.readouterr().err
        monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
        assert run("apply", ollama_plan, "--target", url, "--journal", tmp_path / "j") == 1
        assert names(url) == ["qwen3:8b"]
        monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
        assert run("apply", ollama_plan, "--target", url, "--journal", tmp_path / "j") == 0
        assert names(url) == ["qwen3:8b", DERIVED]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_refused_creation_is_reported_and_nothing_is_changed(ollama_plan, tmp_path, capsys):
    with serve("ollama", fail="refused", fail_at="/api/create") as url:
        assert run("apply", ollama_plan, "--target", url, "--journal", tmp_path / "j", "--yes") == 2
        told = capsys.readouterr().err
        assert "refused (500)" in told
        assert "nothing was changed" in told


def test_plan_for_a_server_that_is_not_running_prints_commands(tmp_path, capsys):
    report = plan("koboldcpp", "m", option("short", context_length=4096))
    assert run("apply", written(tmp_path, report), "--journal", tmp_path / "j") == 0
    shown = capsys.readouterr().out
    assert "nothing was changed" in shown
    assert "4096" in shown
    assert not (tmp_path / "j").exists()


def test_plan_with_an_unavailable_part_is_not_applied_in_part(tmp_path, capsys):
    report = plan("ollama", "qwen3:8b", option("short", context_length=8192, model_file="qwen3:8b-q3_K_M"))
    with serve("ollama") as url:
        assert run("apply", written(tmp_path, report), "--target", url, "--yes", "--journal", tmp_path / "j") == 0
        shown = capsys.readouterr().out
        assert "BY HAND" in shown
        assert "not included: model_file = qwen3:8b-q3_K_M" in shown
        assert names(url) == ["qwen3:8b"]
    assert not (tmp_path / "j").exists()


def test_plan_for_another_runtime_is_refused(ollama_plan, tmp_path, capsys, wording):
    with serve("lm_studio") as url:
        assert run("apply", ollama_plan, "--target", url, "--yes", "--journal", tmp_path / "j") == 2
    wording(capsys.readouterr().err, tells="ollama")
    assert run("apply", ollama_plan, "--target", "no server") == 2


def test_invalid_arguments_are_user_errors(ollama_plan, tmp_path, capsys):
    assert run("apply", str(tmp_path / "none.json")) == 2
    assert run("apply", ollama_plan, "--format", "xml") == 2
    assert run("undo", "0000", "--journal", tmp_path / "j") == 2
    assert "undo --list" in capsys.readouterr().err


def test_diff_hides_keys():
    before = b'export LLAMA_API_KEY="abc-secret"\nserver --api-key abcdefgh-secret -c 1\n'
    listed = b'command:\n  - "--api-key"\n  - "abcdefgh-secret"\n  - -c\n'
    for text in (before, listed):
        shown = shown_diff(text, text.replace(b"-c", b"-d"), "x")
        assert "secret" not in shown
        assert "-d" in shown
    assert "No newline" in shown_diff(b"a", b"b\n", "x")


def test_failed_restart_is_reported_with_undo():
    restart_server(["true"])
    silent, loud = ["sh -c 'exit 3'"], ["sh -c 'echo broken >&2; exit 1'"]
    for lines in (["false-no-such-program"], silent, loud, ["by hand: start it again"]):
        with pytest.raises(UserError) as told:
            restart_server(lines)
        assert "unslow undo" in told.value.hint

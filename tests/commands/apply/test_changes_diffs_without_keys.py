import pytest

from unslow.act.changes import Changes, Edit, PlannedChange
from unslow.act.disk import Disk
from unslow.act.ollama import Ollama
from unslow.commands.apply import UndoRequest
from unslow.commands.apply.changes import journals_at, shown_diff, would_undo
from unslow.look.system.live import LiveSystem


@pytest.mark.parametrize(
    "words",
    [
        "--api_key sk-secret-1234",
        "--api-key=sk-secret-1234",
        '--api-key "two secret words"',
        "--api-key 'two secret words'",
        '"--api-key=two secret words"',
        '"--api-key", "two secret words",',
        "--api-key one-secret,two-secret",
        '--api-key "a secret \\"in\\" quotes secret"',
        '--api-key "secret that is not closed',
        "--hf_token secret-abc==",
        "-hft secret",
        'Environment="LLAMA_API_KEY=two secret words"',
        "LLAMA_API_KEY='two secret words'",
        "--api-key \\\n  secret-1234",
    ],
)
def test_api_keys_are_hidden_in_diffs_in_every_spelling(words):
    text = f"server {words} -c 1\n"
    shown = shown_diff(text.encode(), text.replace("-c 1", "-c 2").encode(), "x")
    assert "secret" not in shown
    assert "words" not in shown
    assert "KEY" in shown


def test_text_after_a_hidden_key_stays():
    shown = shown_diff(b'a --api-key "two words" -c 1\n', b'a --api-key "two words" -c 2\n', "x")
    assert "+a --api-key KEY -c 2" in shown


@pytest.mark.parametrize(
    "words",
    ["--api-key-file /etc/k", "--api_key_file /etc/k", "--api-key-file=/etc/k", "LLAMA_ARG_API_KEY_FILE=/etc/k"],
)
def test_key_file_path_is_not_hidden(words):
    assert f"+a {words} -c 2" in shown_diff(f"a {words} -c 1\n".encode(), f"a {words} -c 2\n".encode(), "x")


def test_key_is_hidden_when_its_flag_is_outside_the_diff_context():
    lines = ["- --api-key", "- sk-secret-1234", "- a", "- b", "- -c", "- 1"]
    before = "\n".join(lines).encode()
    shown = shown_diff(before, before.replace(b"- 1", b"- 2").replace(b"- -c", b"- -d"), "x")
    assert "--api-key" not in shown
    assert "secret" not in shown


def test_undo_diff_hides_api_keys(tmp_path):
    script = tmp_path / "start.sh"
    script.write_text("server --api_key sk-secret-1234 -c 1\n")
    system, disk = LiveSystem(), Disk()
    journals = journals_at(str(tmp_path / "j"), disk)
    changes = Changes(journals, disk, Ollama(system, disk, ""))
    edit = Edit(str(script), script.read_bytes(), script.read_bytes().replace(b"-c 1", b"-c 2"))
    with journals.lock():
        changes.apply(PlannedChange("shorter", (edit,), (), ()), system.now(), "0")
    (file,) = would_undo(system, UndoRequest(journal=str(tmp_path / "j"))).files
    assert "+server --api_key KEY -c 1" in file.diff
    assert "secret" not in file.diff

from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.act.changes import Edit, PlannedChange
from unslow.act.command_words import NotUnderstoodError
from unslow.commands._command_lines import commands_for
from unslow.commands.apply import UndoRequest
from unslow.commands.apply.changes import undone, would_undo
from unslow.commands.apply.prepare import PreparedChange, check_allowed, perform_change
from unslow.commands.apply.ways import lines_left, ollama_changes, service_edit
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact
from unslow.look.system import FinishedCommand
from unslow.look.system.live import LiveSystem
from unslow.think.case.view import CaseView
from unslow.think.change import ApplyReport

URL = "http://127.0.0.1:11434"
SHOW = "--property=FragmentPath --property=DropInPaths"


def ollama(version: str = "0.12.0", **facts) -> Runtime:
    known = {
        "name": reported_fact("Ollama", "x"),
        "url": reported_fact(URL, "x"),
        "version": reported_fact(version, "x"),
    }
    return Runtime().with_facts(**known, system=reported_fact("Linux", "x"), **facts)


def spelled(runtime: Runtime, **changes):
    wanted = [Knob(name).to(value) for name, value in changes.items()]
    return commands_for(wanted, CaseView(Case(runtime=runtime, model=Model(name=reported_fact("qwen3:8b", "x")))))


def test_ollama_parameters_become_a_derived_model_with_json_values():
    said = spelled(ollama(), context_length=8192, load_mode="none")
    step = ollama_changes(said, ollama(), "qwen3:8b", None)
    assert step is not None
    assert (step.url, step.name, step.parent) == (URL, "qwen3:8b-unslow", "qwen3:8b")
    assert step.parameters == {"num_ctx": 8192, "use_mmap": False}
    named = ollama_changes(said, ollama(), "qwen3:8b", "mine")
    assert named is not None
    assert named.name == "mine"


def test_old_ollama_or_environment_only_changes_derive_no_model():
    said = spelled(ollama(), context_length=8192)
    assert ollama_changes(said, ollama("0.5.4"), "qwen3:8b", None) is None
    assert ollama_changes(spelled(ollama(), kv_cache_type="q8_0"), ollama(), "qwen3:8b", None) is None


def test_lines_left_omit_what_apply_does_automatically():
    said = spelled(ollama(), context_length=8192, kv_cache_type="q8_0")
    assert said.environment["OLLAMA_KV_CACHE_TYPE"] == "q8_0"
    assert lines_left(said, model=True, service=True) == ()
    assert any("OLLAMA_KV_CACHE_TYPE" in line for line in lines_left(said, model=True, service=False))
    assert not any("num_ctx" in line for line in lines_left(said, model=True, service=False))
    assert any("num_ctx" in line for line in lines_left(said, model=False, service=True))
    assert lines_left(said, model=False, service=False) == said.lines


def test_environment_goes_to_the_service_of_the_parent_ollama_process(tmp_path):
    unit = tmp_path / "ollama.service"
    files = {
        "/proc/9/comm": "llama-server", "/proc/9/status": "PPid:\t8\n", "/proc/9/cgroup": "0::/a/ollama.service",
        "/proc/8/comm": "ollama", "/proc/8/status": "PPid:\t1\n", "/proc/8/cgroup": "0::/system.slice/ollama.service",
        "/proc/1/comm": "systemd", str(unit): "[Service]\nExecStart=/usr/bin/ollama serve\n",
    }  # fmt: skip
    said = FinishedCommand(0, f"FragmentPath={unit}\nDropInPaths=\n", "")
    system = FakeSystem(files=files, commands={f"systemctl show ollama.service {SHOW}": said})
    edit, then = service_edit(system, 9, {"OLLAMA_KV_CACHE_TYPE": "q8_0", "X": None})
    assert edit.path == "/etc/systemd/system/ollama.service.d/90-unslow.conf"
    assert edit.after.decode().splitlines()[1:] == [
        "[Service]",
        'Environment="OLLAMA_KV_CACHE_TYPE=q8_0"',
        "UnsetEnvironment=X",
    ]
    assert then[1] == "systemctl restart ollama.service"
    with pytest.raises(NotUnderstoodError, match="no systemd service"):
        service_edit(FakeSystem(files={**files, "/proc/1/comm": "init"}), 9, {"A": "1"})
    with pytest.raises(NotUnderstoodError, match="not there"):
        service_edit(FakeSystem(files=files), 9, {"A": "1"})


def ready(path: Path, before: bytes | None, after: bytes) -> PreparedChange:
    report = ApplyReport(unslow_version="0", runtime="r", model="m", option="o", how="script", outcome="would_change")
    return PreparedChange(report, PlannedChange("w", (Edit(str(path), before, after),)))


def test_undo_preview_shows_edits_made_by_others(tmp_path):
    script = tmp_path / "start.sh"
    script.write_bytes(b"old\n")
    journal, system = str(tmp_path / "j"), LiveSystem()
    done = perform_change(system, ready(script, b"old\n", b"new\n"), journal)
    assert (done.outcome, script.read_bytes()) == ("changed", b"new\n")
    shown = would_undo(system, UndoRequest(journal=journal))
    assert "-new\n+old" in shown.files[0].diff
    assert shown.foreign == ()
    script.write_bytes(b"new\ntheirs\n")
    assert "+theirs" in would_undo(system, UndoRequest(journal=journal)).foreign[0].diff
    with pytest.raises(UserError, match="something else"):
        undone(system, UndoRequest(journal=journal))
    assert undone(system, UndoRequest(journal=journal, force=True)).outcome == "undone"
    assert script.read_bytes() == b"old\n"
    assert undone(system, UndoRequest(journal=journal, change=done.change)).outcome == "nothing"


def test_read_only_file_is_refused_before_confirmation(tmp_path):
    script = tmp_path / "start.sh"
    script.write_bytes(b"old\n")
    script.chmod(0o444)
    with pytest.raises(UserError, match="read-only"):
        check_allowed(ready(script, b"old\n", b"new\n"))


def test_print_only_change_writes_no_journal(tmp_path):
    printed = ready(tmp_path / "x", None, b"x")._replace(planned=None)
    assert perform_change(LiveSystem(), printed, str(tmp_path / "j")) == printed.report
    assert not (tmp_path / "j").exists()

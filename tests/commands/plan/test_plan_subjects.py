"""What the argument of `unslow plan` means."""

import json
from pathlib import Path

import pytest

from unslow.commands._output import Silent
from unslow.commands.plan.subjects import find_subject, hosts_named, is_target
from unslow.facts.errors import UserError
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot
from unslow.facts.values import reported_fact
from unslow.look.system.live import LiveSystem

MACHINES = Path(__file__).parents[2] / "machines"


@pytest.mark.parametrize(
    ("word", "target"),
    [
        (None, True), ("http://127.0.0.1:8080", True), ("127.0.0.1:8080", True), ("4242", True), ("seen.json", True),
        (str(MACHINES / "lab_cpu_healthy_small"), True), ("-", False), ("llama3.1:8b", False), ("llama-3.3-70b", False),
        ("model.gguf", False), ("https://hf.co/a/b/resolve/main/c.gguf", False), ("hf://a/b", False),
        ("https://huggingface.co/a/b", False), ("http://example.com", True), ("http://[::1", True),
        (str(MACHINES), False), ("a" * 5000, False),
    ],
)  # fmt: skip
def test_targets_and_models_are_distinguished(word: str | None, target: bool) -> None:
    assert is_target(word) is target


def test_host_of_a_given_server_may_be_contacted() -> None:
    assert hosts_named("http://box.lan:8080/v1") == ("box.lan",)
    assert hosts_named("box.lan:8080") == ("box.lan",)
    assert hosts_named("https://hf.co/a/b") == hosts_named("llama-3.1-8b") == hosts_named(None) == ()


def subject(name: str, speed: float) -> Subject:
    return Subject(
        runtime=Runtime(name=reported_fact("llama.cpp", "test")),
        model=Model(name=reported_fact(name, "test")),
        run=Run(decode_tokens_per_s=reported_fact(speed, "test")),
    )


def stored(folder: Path, *subjects: Subject) -> str:
    path = folder / "seen.json"
    path.write_bytes(dump_snapshot(Snapshot(unslow_version="0", subjects=subjects)))
    return str(path)


def test_slowest_subject_of_a_snapshot_is_planned_and_noted(tmp_path: Path) -> None:
    found = find_subject(LiveSystem(), stored(tmp_path, subject("quick", 50), subject("slow", 5)), Silent())
    assert found.case.model.name.value_or("") == "slow"
    assert not found.live
    assert "2 models found" in found.notes[0]


def test_snapshot_without_a_running_model_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no running model in") as error:
        find_subject(LiveSystem(), stored(tmp_path), Silent())
    assert "unslow plan MODEL" in error.value.hint


def test_json_that_is_not_a_snapshot_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"hidden_size": 4096}))
    with pytest.raises(UserError):
        find_subject(LiveSystem(), str(path), Silent())

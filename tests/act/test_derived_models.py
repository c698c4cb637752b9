import os
from pathlib import Path

import pytest
from dying import Counted, apply_in, changes_in, dies, picture, recover_in, steps_until_it_lives, undo_in
from lab.replay import serve
from lab.replay.behaviour import Behaviour
from lab.replay.server import serving, started

from unslow.act.changes import Edit, PlannedChange
from unslow.act.journal import ModelStep
from unslow.act.ollama import checked_name
from unslow.facts.errors import UserError
from unslow.look.runtimes.ollama.places import derived_name, full_name
from unslow.look.system.live import LiveSystem


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def models(url: str) -> dict[str, str]:
    listed = LiveSystem().request("GET", f"{url}/api/tags").json()["models"]
    return {model["name"]: model["digest"] for model in listed}


def planned(url: str, folder: Path, parent: str = "qwen3:8b") -> PlannedChange:
    step = ModelStep(url=url, name="qwen3:8b-unslow", parent=parent, parameters={"num_ctx": 8192, "use_mmap": False})
    return PlannedChange(
        "ollama", (Edit(str(folder / "ollama.service.d" / "90-unslow.conf"), None, b"[Service]\n"),), (step,)
    )


def test_a_model_is_derived_and_deleted_and_its_parent_stays(tmp_path):
    with serve("ollama") as url:
        before = models(url)
        journal = apply_in(tmp_path / "j", planned(url, tmp_path / "etc"))
        made = models(url)
        assert made == before | {"qwen3:8b-unslow": journal.models[0].digest}
        shown = LiveSystem().request("POST", f"{url}/api/show", {"model": "qwen3:8b-unslow"}).json()["parameters"]
        assert dict(line.split() for line in shown.splitlines())["num_ctx"] == "8192"
        assert "use_mmap" in shown
        undo_in(tmp_path / "j")
        assert models(url) == before
        assert not (tmp_path / "etc").exists()


def test_an_existing_model_is_not_overwritten(tmp_path):
    with serve("ollama") as url:
        apply_in(tmp_path / "j", planned(url, tmp_path / "etc"))
        again = planned(url, tmp_path / "other")
        with pytest.raises(UserError, match="already"):
            apply_in(tmp_path / "j", again)
        assert not (tmp_path / "other").exists()


def test_a_missing_parent_model_is_not_pulled(tmp_path):
    server = started("ollama", None, Behaviour())
    with serving(server), pytest.raises(UserError, match="no model qwen3:99b"):
        apply_in(tmp_path / "j", planned(server.url, tmp_path / "etc", "qwen3:99b"))
    assert "POST /api/create" not in server.asked


def test_a_model_recreated_by_the_user_is_not_deleted(tmp_path):
    with serve("ollama") as url:
        apply_in(tmp_path / "j", planned(url, tmp_path / "etc"))
        other = {"model": "qwen3:8b-unslow", "from": "qwen3:8b", "parameters": {"num_ctx": 1}}
        LiveSystem().request("POST", f"{url}/api/create", other)
        with pytest.raises(UserError, match="something else"):
            undo_in(tmp_path / "j")
        assert (tmp_path / "etc" / "ollama.service.d" / "90-unslow.conf").exists()
        undo_in(tmp_path / "j", force=True)
        assert "qwen3:8b-unslow" in models(url)
        assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize("fail", ["refused", "missing", "cut", "cut_at_once", "huge", "nested", "rubbish", "types"])
def test_a_server_that_refuses_to_create_changes_nothing(tmp_path, fail):
    before = picture(tmp_path)
    server = started("ollama", None, Behaviour(fail=fail, fail_at="/api/create"))
    with serving(server):
        had = models(server.url)
        with pytest.raises(UserError) as told:
            apply_in(tmp_path / "j", planned(server.url, tmp_path / "etc"))
        assert "127.0.0.1" in told.value.message
        assert models(server.url) == had
    assert not (tmp_path / "etc").exists()
    assert picture(tmp_path).keys() - before.keys() == {p for p in picture(tmp_path) if "/j" in p}
    assert [journal.state for journal in changes_in(tmp_path / "j")[0].all()] == ["undone"]


@pytest.mark.parametrize("fail", ["cut", "cut_at_once", "huge"])
def test_a_model_created_without_confirmation_is_deleted_again(tmp_path, fail):
    server = started("ollama", None, Behaviour(fail=fail, fail_at="/api/create", done_first=True))
    with serving(server):
        had = models(server.url)
        with pytest.raises(UserError):
            apply_in(tmp_path / "j", planned(server.url, tmp_path / "etc"))
        assert models(server.url) == had
    assert not (tmp_path / "etc").exists()


def test_dying_before_any_step_leaves_no_untracked_model(tmp_path):
    with serve("ollama") as url:
        had, ends, folders = models(url), set(), []

        def work(count):
            folders.append(tmp_path / f"t{len(folders)}")
            apply_in(folders[-1] / "j", planned(url, folders[-1] / "etc"), count)

        for _ in steps_until_it_lives(work):
            recover_in(folders[-1] / "j")
            there = "qwen3:8b-unslow" in models(url)
            assert (folders[-1] / "etc").exists() == there  # both, or neither
            ends.add(there)
            if there:
                undo_in(folders[-1] / "j")
            assert models(url) == had
        assert ends == {True, False}


def test_a_change_with_an_unreachable_server_is_recovered_later(tmp_path):
    with serve("ollama") as url:
        port = int(url.rpartition(":")[2])
        counted = Counted()
        apply_in(tmp_path / "count", planned(url, tmp_path / "other"), counted)
        undo_in(tmp_path / "count")
        after_asking = next(n for n, (what, _) in enumerate(counted.steps, 1) if what == "created model")
        assert dies(lambda count: apply_in(tmp_path / "j", planned(url, tmp_path / "etc"), count), after_asking)
    assert "cannot be undone yet" in recover_in(tmp_path / "j")[0]
    with serve("ollama", port=port) as url:  # a new one, which has no such model
        assert "it was undone" in recover_in(tmp_path / "j")[0]
    assert not (tmp_path / "etc").exists()


def test_model_names_are_completed_derived_and_checked():
    assert full_name("qwen3") == "qwen3:latest"
    assert full_name("host:1/lib/qwen3") == "host:1/lib/qwen3:latest"
    assert derived_name("qwen3") == derived_name("qwen3:latest") == "qwen3-unslow"
    assert derived_name("/models/My Model.gguf") == "my-model-unslow"
    assert full_name(derived_name("hf.co/a/b:Q4_K_M")) == "b:Q4_K_M-unslow"  # one that it makes is listed as it is
    assert checked_name("a/b:c-d") == "a/b:c-d"
    with pytest.raises(UserError):
        checked_name("a b")

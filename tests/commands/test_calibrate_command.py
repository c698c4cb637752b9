"""`unslow calibrate`: what it lists, removes and refuses. Measuring is tested with the engine."""

import json

import pytest

from unslow.__main__ import main


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSLOW_DATA_DIR", str(tmp_path))
    return tmp_path


def test_empty_list_names_the_folder(capsys, data):
    assert main(["calibrate", "--list"]) == 0
    assert f"No calibrations in {data}" in capsys.readouterr().out.replace("\n", " ")
    assert main(["calibrate", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": "unslow.calibrations/1",
        "folder": str(data / "calibrations"),
        "calibrations": [],
    }


def test_broken_file_is_listed_and_can_be_removed(capsys, data):
    folder = data / "calibrations"
    folder.mkdir()
    (folder / "calibration-x-0123456789ab.json").write_text("{")
    (folder / "other.json").write_text("{")
    assert main(["calibrate", "--list", "-q"]) == 0
    assert "is not a calibration" in capsys.readouterr().out
    assert main(["calibrate", "--forget"]) == 0
    assert "removed" in capsys.readouterr().out
    assert [path.name for path in folder.iterdir()] == ["other.json"]
    assert main(["calibrate", "--forget"]) == 2


@pytest.mark.parametrize("words", [["seen.json"], ["--threads", "0"], ["--threads", "2", "123"], ["--format", "xml"]])
def test_invalid_arguments_exit_2(capsys, words):
    assert main(["calibrate", *words]) == 2
    assert "unslow: " in capsys.readouterr().err


def test_unreachable_server_exits_2(capsys):
    assert main(["calibrate", "http://127.0.0.1:9", "-q"]) == 2
    assert "127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--list", "--forget"], ["--list", "http://127.0.0.1:1"], ["http://x", "--forget"]])
def test_list_forget_and_target_exclude_each_other(capsys, words, wording):
    assert main(["calibrate", *words]) == 2
    wording(capsys.readouterr().err)

import json

from stored import extracted, home

from unslow.__main__ import main


def run(capsys, *words):
    status = main(["models", *words])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_empty_machine_names_the_searched_folders(capsys, tmp_path, monkeypatch):
    home(tmp_path, monkeypatch)
    status, out, err = run(capsys)
    assert (status, err) == (0, "")
    assert "No models found." in out
    assert f"{tmp_path}/.ollama/models:notfound" in "".join(out.split())


def test_models_of_every_folder_are_listed(capsys, tmp_path, monkeypatch):
    real = extracted(tmp_path)
    home(tmp_path / "home", monkeypatch, HF_HOME=str(real / "hf"))
    status, out, err = run(capsys, str(real / "ggufs"))
    assert (status, err) == (0, "")
    assert all(word in out for word in ("acme/tiny-llama", "acme/tiny-GGUF:F16", "lora", "Hugging Face"))
    assert "acme/tiny-llama@" not in out
    assert "acme/tiny-llama@" in run(capsys, "--all")[1]


def test_json_lists_models(capsys, tmp_path, monkeypatch):
    real = extracted(tmp_path)
    home(tmp_path / "home", monkeypatch)
    status, out, _ = run(capsys, str(real / "ggufs" / "embed.gguf"), "--json")
    assert status == 0
    (model,) = json.loads(out)["models"]
    assert (model["name"], model["kind"], model["parameters"]) == ("embed", "embedding", 512)


def test_invalid_arguments_exit_2_with_a_hint(capsys, tmp_path, monkeypatch):
    home(tmp_path, monkeypatch)
    for words, message in ((["/no/such/place"], "no such file or folder"), (["--format", "xml"], "no format 'xml'")):
        status, out, err = run(capsys, *words)
        assert (status, out) == (2, "")
        assert message in err
        assert "hint:" in err

"""All stores together: discovered by presence, folders recognised, failures isolated."""

import shutil

import pytest
from stored import OllamaStore, checkpoint, extracted, home, safetensors, tensors

from unslow.facts.stored_model import Kind, Place
from unslow.look.models.stores import all_stores, find_at, find_everywhere, with_header
from unslow.look.models.stores._folders import names_in
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

SYSTEM = LiveSystem()


def names(models):
    return {m.name for m in models}


def test_every_store_keeps_the_contract():
    stores = {store.__name__.rpartition(".")[2]: store for store in all_stores()}
    assert set(stores) == {"huggingface", "gguf_cache", "lm_studio", "ollama"}
    for store in stores.values():
        assert store.TOOL
        assert store.__doc__
        assert not store.claims([])
        assert callable(store.places)
        assert callable(store.find)


def test_all_stores_and_an_extra_folder_are_listed(tmp_path, monkeypatch):
    real = extracted(tmp_path / "real")
    home(tmp_path / "home", monkeypatch, HF_HOME=str(real / "hf"), LLAMA_CACHE=str(real / "llama"))
    seen = find_everywhere(SYSTEM, [str(real / "ggufs")])
    assert {m.tool for m in seen.models} == {"Hugging Face", "llama.cpp", "folder"}
    assert {"acme/tiny-llama", "acme/tiny-GGUF:BF16", "embed"} <= names(seen.models)
    assert (
        Place("Ollama", f"{tmp_path}/home/.ollama/models", f"{tmp_path}/home/.ollama/models: not found") in seen.places
    )


def test_a_location_reached_by_two_names_is_listed_once(tmp_path, monkeypatch):
    real = extracted(tmp_path / "real")
    (tmp_path / "alias").symlink_to(real / "hf" / "hub")
    home(tmp_path, monkeypatch, HF_HUB_CACHE=str(tmp_path / "alias"), LLAMA_CACHE=str(real / "hf" / "hub"))
    models = find_everywhere(SYSTEM, [str(real / "hf" / "hub")]).models
    assert len(models) == len(names(models)) == 6


def test_a_folder_is_recognised_as_its_store(tmp_path):
    real = extracted(tmp_path / "real")
    assert "acme/tiny-llama" in names(find_at(SYSTEM, str(real / "hf" / "hub")))
    store = OllamaStore(tmp_path / "o")
    store.add("registry.ollama.ai/library/a/b", [store.layer("model", b"GGUF")])
    assert names(find_at(SYSTEM, str(store.root))) == {"a:b"}


def test_a_plain_folder_lists_its_models_without_hidden_ones(tmp_path):
    ggufs = extracted(tmp_path / "real") / "ggufs"
    shutil.copytree(ggufs, tmp_path / "m" / "gguf")
    checkpoint("bf16_sharded", tmp_path / "m" / "tiny")
    shutil.copytree(ggufs, tmp_path / "m" / ".hidden")
    shutil.copy(ggufs / "embed.gguf", tmp_path / "m")
    models = find_at(SYSTEM, str(tmp_path / "m"))
    once = {"big-Q4_0", "imatrix", "lora", "rerank", "tiny"}
    assert names(models) == once | {"gguf/embed", "embed", "gguf/mmproj-model-f16"}
    assert not any(".hidden" in m.path for m in models)


def test_loose_safetensors_files_are_separate_models(tmp_path):
    for name in ("one", "two", "adapter_model"):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors(tensors(a=("F32", (2,)))))
    models = {m.name: with_header(SYSTEM, m) for m in find_at(SYSTEM, str(tmp_path))}
    assert set(models) == {"one", "two", "adapter_model"}
    assert models["adapter_model"].kind is Kind.ADAPTER
    assert models["one"].parameters == 2


def test_a_part_given_by_path_brings_its_other_parts(tmp_path):
    ggufs = extracted(tmp_path) / "ggufs"
    (model,) = find_at(SYSTEM, str(ggufs / "big-Q4_0-00002-of-00002.gguf"))
    assert [f.path.rpartition("/")[2] for f in model.files] == [f"big-Q4_0-0000{n}-of-00002.gguf" for n in (1, 2)]
    assert with_header(SYSTEM, model).parameters == 4096


def test_a_gguf_file_is_recognised_under_any_name(tmp_path):
    shutil.copy(extracted(tmp_path) / "ggufs" / "embed.gguf", tmp_path / "sha256-abc")
    (model,) = find_at(SYSTEM, str(tmp_path / "sha256-abc"))
    assert with_header(SYSTEM, model).kind is Kind.EMBEDDING


def test_a_file_that_is_not_a_model_is_a_look_error(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(LookError, match="not a model"):
        find_at(SYSTEM, str(tmp_path / "notes.txt"))
    with pytest.raises(LookError, match="not there"):
        find_at(SYSTEM, str(tmp_path / "nowhere"))
    assert find_at(SYSTEM, str(tmp_path)) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n", "Git LFS pointer"),
        (b"<html>", "does not start with GGUF"),
        (b"", "x.gguf"),
    ],
)
def test_lfs_pointers_and_other_content_are_broken_models(content, reason, tmp_path):
    (tmp_path / "x.gguf").write_bytes(content)
    (model,) = find_at(SYSTEM, str(tmp_path))
    broken = with_header(SYSTEM, model).broken
    assert broken
    assert reason in broken or reason in model.path


def test_a_truncated_model_keeps_its_architecture(tmp_path):
    data = (extracted(tmp_path) / "ggufs" / "embed.gguf").read_bytes()
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "x.gguf").write_bytes(data[:-64])
    (model,) = (with_header(SYSTEM, m) for m in find_at(SYSTEM, str(tmp_path / "m")))
    assert "bytes are missing" in model.broken
    assert model.architecture == "nomic-bert"


def test_a_missing_gguf_part_makes_the_model_broken(tmp_path):
    ggufs = extracted(tmp_path) / "ggufs"
    (ggufs / "big-Q4_0-00001-of-00002.gguf").unlink()
    model = next(m for m in find_at(SYSTEM, str(ggufs)) if m.name == "big-Q4_0")
    assert with_header(SYSTEM, model).broken == "big-Q4_0-00001-of-00002.gguf is missing"


@pytest.mark.parametrize(
    ("stem", "quant"),
    [
        ("Llama-3.2-3B-Instruct-Q4_K_M", "Q4_K_M"),
        ("model.Q8_0", "Q8_0"),
        ("model-q4_k_m", "Q4_K_M"),
        ("gemma-UD-IQ2_XXS", "IQ2_XXS"),
        ("gpt-oss-20b-mxfp4", "MXFP4"),
        ("model_f16", "F16"),
        ("Mistral-7B-Instruct-v0.1", ""),
        ("phi-2", ""),
        ("Q4_0", ""),
    ],
)
def test_the_quant_is_parsed_from_a_file_name(stem, quant):
    assert names_in("org/repo")("", stem).short == (f"org/repo:{quant}" if quant else f"org/repo/{stem}")


def test_the_model_list_replays_identically(tmp_path, monkeypatch):
    real = extracted(tmp_path / "real")
    home(tmp_path / "home", monkeypatch, HF_HOME=str(real / "hf"))
    recorder = Recorder(SYSTEM, tmp_path / "recording")
    live = [with_header(recorder, m) for m in find_everywhere(recorder).models]
    recorder.close()
    shutil.rmtree(real)
    replay = RecordedSystem(tmp_path / "recording")
    assert [with_header(replay, m) for m in find_everywhere(replay).models] == live

import pytest
from stored import checkpoint, extracted, furnished

from unslow.commands.models.stored import find_model, resolve
from unslow.facts.errors import UserError
from unslow.facts.stored_model import Kind
from unslow.look.models.stores import find_everywhere
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return furnished(tmp_path, monkeypatch)


def refusal(word):
    with pytest.raises(UserError) as caught:
        resolve(SYSTEM, word)
    return f"{caught.value.message} | {caught.value.hint}"


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("nomic:v1.5", "nomic:v1.5"),
        ("NOMIC:V1.5", "nomic:v1.5"),
        ("nomic", "nomic:latest"),
        ("ranker", "ranker:small"),
        ("acme/tiny-llama", "acme/tiny-llama"),
        ("tiny-llama", "acme/tiny-llama"),
        ("acme/tiny-GGUF:F16", "acme/tiny-GGUF:F16"),
        ("pub/repo-GGUF:q8_0", "pub/repo-GGUF:Q8_0"),
        ("ranker-Q8_0", "pub/repo-GGUF:Q8_0"),
        ("ranker-Q8_0.gguf", "pub/repo-GGUF:Q8_0"),
        ("repo-GGUF:Q4_0", "pub/repo-GGUF:Q4_0"),
    ],
)
def test_names_resolve_without_case_tag_or_publisher(word, name, machine):
    model = resolve(SYSTEM, word)
    assert model.name == name
    assert model.architecture


def test_paths_resolve_to_files_folders_and_parts(machine, tmp_path, monkeypatch):
    ggufs = tmp_path / "real" / "ggufs"
    assert resolve(SYSTEM, str(ggufs / "big-Q4_0-00002-of-00002.gguf")).parameters == 4096
    folder = checkpoint("bf16", tmp_path / "tiny")
    for path in (folder, folder / "model.safetensors"):
        assert resolve(SYSTEM, str(path)).parameters == 106_816
    assert resolve(SYSTEM, str(ggufs / "lora.gguf")).kind is Kind.ADAPTER
    monkeypatch.chdir(ggufs)
    assert resolve(SYSTEM, "embed.gguf").path == "./embed.gguf"


def test_truncated_file_is_still_described(tmp_path):
    data = (extracted(tmp_path) / "ggufs" / "embed.gguf").read_bytes()
    (tmp_path / "x.gguf").write_bytes(data[:-64])
    model = resolve(SYSTEM, str(tmp_path / "x.gguf"))
    assert model.parameters == 512
    assert "bytes are missing" in model.broken


def test_ambiguous_names_list_the_candidates(machine, tmp_path, wording):
    wording(refusal("pub/repo-GGUF"), tells=("pub/repo-GGUF:Q4_0", "pub/repo-GGUF:Q8_0"))
    ggufs = str(tmp_path / "real" / "ggufs")
    text = refusal(ggufs)
    wording(text, tells="3")
    assert f"{ggufs}/rerank.gguf" in text
    assert "lora" not in text


def test_copies_of_one_model_are_not_ambiguous(machine, tmp_path, monkeypatch):
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "real" / "llama"))
    assert [m.name for m in find_everywhere(SYSTEM).models].count("acme/tiny-GGUF:BF16") == 2
    assert resolve(SYSTEM, "acme/tiny-GGUF:BF16").name == "acme/tiny-GGUF:BF16"


def test_unknown_names_suggest_similar_ones(machine, wording):
    wording(refusal("nomik:v1.5"), tells=("nomik:v1.5", "nomic:v1.5"))
    assert "`unslow models` lists" in refusal("zzzzzzzz")
    assert find_model(SYSTEM, "llama-3.3-70b") is None


def test_unusable_words_are_refused_with_the_reason(machine, tmp_path, wording):
    wording(refusal("gpt-oss:120b-cloud"))
    wording(refusal("hf.co/lost/model:Q4_0"))
    wording(refusal(""))
    wording(refusal("/nowhere/x.gguf"), tells="/nowhere/x.gguf")
    (tmp_path / "empty").mkdir()
    wording(refusal(str(tmp_path / "empty")))
    wording(refusal("/"))
    (tmp_path / "link.gguf").symlink_to("nowhere")
    wording(refusal(str(tmp_path / "link.gguf")))
    (tmp_path / "empty.gguf").touch()
    wording(refusal(str(tmp_path / "empty.gguf")))
    wording(refusal("Qwen3-8B-Q8_0.gguf"), tells="Qwen3-8B --quant Q8_0")
    wording(refusal("a\0b"))
    (tmp_path / "notes.txt").write_text("x")
    wording(refusal(str(tmp_path / "notes.txt")))

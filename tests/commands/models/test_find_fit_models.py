"""The model and the quant that a word means to `unslow fit`."""

import os
from pathlib import Path

import pytest
from stored import extracted, home

from unslow.commands.models.find import find_gguf_model, find_shape
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()
GB = 10**9


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No store and no folder of this machine has a say."""
    home(tmp_path / "home", monkeypatch)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return tmp_path


def refusal(find, word, quant=None):
    with pytest.raises(UserError) as caught:
        find(SYSTEM, word, quant)
    assert caught.value.hint
    return f"{caught.value.message} | {caught.value.hint}"


@pytest.mark.parametrize(
    ("word", "name", "quant", "gigabytes"),
    [
        ("bartowski/Qwen2.5-32B-Instruct-GGUF:Q5_K_M", "Qwen2.5-32B", "Q5_K_M", 23.3),
        ("hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q8_0", "Llama-3.2-3B", "Q8_0", 3.4),
        ("llama3.1:8b-instruct-fp16", "Llama-3.1-8B", "F16", 16.1),
        ("llama3.1:8b-instruct-q8_0", "Llama-3.1-8B", "Q8_0", 8.5),
        ("Qwen3:32B-FP16", "Qwen3-32B", "F16", 65.5),
        ("SmolLM2-135M-Instruct.Q4_1", "SmolLM2-135M", "Q4_1", 0.1),
        ("gemma3:27b-it-qat", "Gemma-3-27B", "Q4_0", 15.6),
        ("unsloth/gpt-oss-120b-GGUF:F16", "gpt-oss-120b", "F16", 65.4),
        ("https://huggingface.co/bartowski/Qwen2.5-32B-Instruct-GGUF", "Qwen2.5-32B", "Q4_K_M", 19.8),
    ],
)
def test_quant_in_the_model_name_is_used(word, name, quant, gigabytes):
    found = find_gguf_model(SYSTEM, word, None)
    assert (found.name, found.quant, found.source) == (name, quant, "catalogue")
    assert sum(t.bytes for t in found.blueprint.tensors) / GB == pytest.approx(gigabytes, abs=0.06)


def test_assumed_quant_is_noted(wording):
    wording(find_gguf_model(SYSTEM, "qwen3-8b", None).notes[0], tells="Q4_K_M")
    shipped = find_gguf_model(SYSTEM, "gpt-oss-20b", None)
    assert shipped.quant == "MXFP4_MOE"
    wording(shipped.notes[0], tells="MXFP4_MOE")
    named = find_gguf_model(SYSTEM, "qwen3:8b-q8_0", None)
    assert not any("assuming" in note for note in named.notes)


def test_quant_flag_overrides_the_name_and_is_normalized(wording):
    found = find_gguf_model(SYSTEM, "llama3.1:8b-instruct-q8_0", "q4km")
    assert found.quant == "Q4_K_M"
    wording(found.notes[0], tells=("q8_0", "--quant", "Q4_K_M"))
    assert not any("counts" in note for note in find_gguf_model(SYSTEM, "qwen3:8b-q8_0", "Q8_0").notes)
    assert find_gguf_model(SYSTEM, "unsloth/DeepSeek-R1-GGUF:UD-IQ1_S", "IQ1_S").quant == "IQ1_S"


@pytest.mark.parametrize(
    ("quant", "mix"),
    [("UD-Q4_K_XL", "Q4_K_M"), ("ud-q2_k_xl", "Q2_K"), ("UD-Q3_K_XL", "Q3_K_M"), ("Q5_K_XL", "Q5_K_M"),
     ("UD-Q6_K_XL", "Q6_K"), ("UD-Q8_K_XL", "Q8_0"), ("UD-IQ2_M", "IQ2_M"), ("NVFP4", "Q4_0"), ("int4", "Q4_K_M"),
     ("4bit", "Q4_K_M"), ("8-bit", "Q8_0")],
)  # fmt: skip
def test_unknown_mix_is_estimated_and_noted(quant, mix):
    found = find_gguf_model(SYSTEM, "qwen3-8b", quant)
    near = find_gguf_model(SYSTEM, "qwen3-8b", mix)
    assert found.estimate is not None
    assert found.estimate.mix.name == mix
    assert quant.casefold() in found.notes[0].casefold()
    assert "estimate" in found.notes[0]
    sizes = [sum(t.bytes for t in one.blueprint.tensors) for one in (found, near)]
    assert sizes[0] == pytest.approx(found.estimate.factor * sizes[1], rel=1e-3)


def test_estimated_sizes_are_close_to_published_files():
    """Sizes in GiB of unsloth's Qwen3.6-35B-A3B files."""
    for quant, size in {"UD-Q3_K_XL": 15.7, "UD-Q4_K_M": 20.6, "UD-Q5_K_XL": 24.8, "UD-Q6_K_XL": 29.7}.items():
        found = find_gguf_model(SYSTEM, "qwen3.6-35b-a3b", quant)
        assert sum(t.bytes for t in found.blueprint.tensors) / 2**30 == pytest.approx(size, rel=found.estimate.off)


@pytest.mark.parametrize(
    ("word", "other"),
    [("glm-4.7", "GLM-4.7"), ("deepseek-v3.1", "DeepSeek-V3.1"), ("minimax-m2.5", "MiniMax-M2.5"),
     ("qwen3-coder-next", "Qwen3-Coder-Next"), ("lfm2.5-8b-a1b", "LFM2.5-8B-A1B"), ("glm-4.6", ""),
     ("deepseek-v3:671b", ""), ("DeepSeek-V3-0324", ""), ("mixtral-8x7b-instruct-v0.1", ""), ("llama3.3:70b", "")],
)  # fmt: skip
def test_model_computed_with_another_models_shape_says_so(word, other):
    found = find_gguf_model(SYSTEM, word, "Q4_K_M")
    assert found.stands_for == other
    assert any("has the same shape as" in note for note in found.notes) == bool(other)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "llama.cpp does not load AWQ"),
        ("Qwen/Qwen3-8B-FP8", "--runtime vllm"),
        ("Qwen3-8B-Q8_0.gguf", "no such file or folder | without the file: `unslow fit Qwen3-8B --quant Q8_0`"),
        ("./Qwen3-8B-Q8_0.gguf", "no such file or folder | without the file: `unslow fit Qwen3-8B --quant Q8_0`"),
        ("nomic-embed-text", "an encoder"),
        ("ftp://host/x.gguf", "cannot read models over ftp://"),
        ("http://localhost:1/x.gguf", "check the URL"),
        ("/", "too large to search"),
        ("", "name is empty"),
    ],
)
def test_words_without_a_model_are_refused_with_the_reason(word, said):
    assert said in refusal(find_gguf_model, word)


def test_folders_and_files_without_a_model_are_refused(elsewhere, wording):
    Path("notes").mkdir()
    wording(refusal(find_gguf_model, "notes"))
    wording(refusal(find_shape, "notes"))
    os.mkfifo("pipe")
    assert "is a pipe" in refusal(find_gguf_model, "pipe")
    Path("empty.gguf").touch()
    assert "is empty" in refusal(find_gguf_model, "empty.gguf")
    assert "is empty" in refusal(find_shape, "empty.gguf")


def test_empty_folder_with_a_model_name_does_not_hide_the_model():
    Path("qwen3-8b").mkdir()
    assert find_gguf_model(SYSTEM, "qwen3-8b", None).name == "Qwen3-8B"


def test_vision_projector_that_is_not_counted_is_noted():
    for find in (find_gguf_model, find_shape):
        assert any("reads images" in note for note in find(SYSTEM, "gemma-3-4b", None).notes)
        assert not any("projector" in note for note in find(SYSTEM, "gemma-3-1b", None).notes)


def test_file_header_decides_the_quant(elsewhere, wording):
    path = extracted(elsewhere / "more") / "ggufs" / "embed.gguf"
    whole = find_gguf_model(SYSTEM, str(path), None)
    assert whole.parameters == 512
    assert whole.incomplete == ""
    assert whole.notes == ()
    assert find_gguf_model(SYSTEM, str(path), "fp16") == whole  # which it is
    other = find_gguf_model(SYSTEM, str(path), "bf16")
    assert other.quant == "BF16"
    wording(other.notes, tells=("F16", "BF16"))


def test_truncated_download_is_reported_as_incomplete(elsewhere, wording):
    data = (extracted(elsewhere / "more") / "ggufs" / "embed.gguf").read_bytes()
    (elsewhere / "cwd" / "cut.gguf").write_bytes(data[:-64])
    found = find_gguf_model(SYSTEM, "cut.gguf", None)
    wording(found.incomplete, tells="1 MiB")
    assert found.notes[0] == found.incomplete


def test_header_only_file_is_not_a_truncated_download(elsewhere):
    data = (extracted(elsewhere / "more") / "ggufs" / "embed.gguf").read_bytes()
    whole = find_gguf_model(SYSTEM, str(elsewhere / "more" / "ggufs" / "embed.gguf"), None)
    (elsewhere / "cwd" / "header.gguf").write_bytes(data[: -sum(t.bytes for t in whole.blueprint.tensors)])
    found = find_gguf_model(SYSTEM, "header.gguf", None)
    assert found.incomplete == ""
    assert "only the header" in found.notes[0]


@pytest.mark.parametrize(
    ("word", "quant", "packing"),
    [
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "AWQ", "AWQ"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "GPTQ 4-bit", "GPTQ"),
        ("Qwen/Qwen3-8B-FP8", "FP8 per channel", "FP8 per channel"),
        ("Qwen3:32B-FP16", "F16", ""),
        ("gpt-oss-20b", "MXFP4", "MXFP4"),
        ("deepseek-v3", "FP8 in blocks", "FP8 in blocks"),
        ("qwen3-8b", "BF16", ""),
    ],
)
def test_safetensors_quant_formats_are_recognized(word, quant, packing):
    found = find_shape(SYSTEM, word, None)
    assert (found.quant, found.packing) == (quant, packing)


def test_gguf_models_and_unknown_quants_are_refused_for_vllm(wording):
    wording(refusal(find_shape, "bartowski/Qwen2.5-32B-Instruct-GGUF:Q5_K_M"), tells="Q5_K_M")
    wording(refusal(find_shape, "https://host/x.gguf"))
    assert "nonsense" in refusal(find_shape, "qwen3-8b", "nonsense")
    wording(find_shape(SYSTEM, "Qwen/Qwen3-8B-FP8", "awq").notes[0], tells=("FP8", "AWQ"))
    wording(find_shape(SYSTEM, "qwen3-8b", None).notes[0], tells="BF16")

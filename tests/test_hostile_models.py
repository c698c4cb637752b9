"""Hostile model files: every command answers or refuses in one line, in bounded time and memory."""

import json
import resource
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from lab.fuzz.model_forms import gguf_bytes, small

from unslow.__main__ import main
from unslow.catalog.models import well_known
from unslow.facts.model import Tensor
from unslow.think.blueprints import made_up

ROOT = Path(__file__).parents[1]
MOST_BYTES = 2 * 1024**3
LLAMA, RWKV7 = "smollm2-135m", "rwkv7-2.9b"
CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
    "num_key_value_heads": 4, "intermediate_size": 128, "max_position_embeddings": 4096,
}  # fmt: skip
pytestmark = pytest.mark.no_cover


def unslow(*words: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that can't take more than 2 GiB, nor 30 seconds of a processor."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))

    return subprocess.run(
        [sys.executable, "-m", "unslow", *words], capture_output=True, text=True, preexec_fn=limit, check=False
    )


def checkpoint(folder: Path, layer: int, **config: int) -> str:
    """A folder with two tensors of a few bytes and a config."""
    names = ["model.embed_tokens.weight", f"model.layers.{layer}.mlp.up_proj.weight"]
    places = {n: {"dtype": "BF16", "shape": [4, 4], "data_offsets": [32 * i, 32 * i + 32]} for i, n in enumerate(names)}
    text = json.dumps(places).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(64))
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    return str(folder)


@pytest.mark.parametrize("runtime", ["vllm", "transformers"])
def test_a_config_with_two_billion_layers_is_refused(tmp_path, runtime, wording):
    folder = checkpoint(tmp_path, 0, num_hidden_layers=2**31)
    ended = unslow("fit", folder, "--runtime", runtime, "--device", "RTX 4090")
    assert ended.returncode == 2
    wording(ended.stderr, about="num_hidden_layers = 2,147,483,648", tells="1,024")


def test_an_rwkv_7_with_sixteen_million_mixes_is_refused(tmp_path):
    plan = small(RWKV7, 2)
    changed = [t._replace(shape=(t.shape[0], 1, 1, 2**24), type="F32") if "lerp" in t.name else t for t in plan.tensors]
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(dict(plan.metadata), changed))
    ended = unslow("fit", str(tmp_path / "m.gguf"), "--device", "RTX 3060", "--ram", "16GB")
    assert "have 5 or 6 mixes, and not 16777216" in " ".join(ended.stdout.split())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["fit", "predict", "plan"])
def test_a_vocabulary_only_gguf_is_refused(tmp_path, capsys, command, wording):
    path = tmp_path / "ggml-vocab-llama-bpe.gguf"
    path.write_bytes(gguf_bytes(dict(small(LLAMA, 2).metadata), []))
    assert main([command, str(path), "--device", "2x RTX 3090"]) == 2
    wording(capsys.readouterr().err, about="vocabulary only")


@pytest.mark.parametrize("words", [["fit", "--quant", "Q8_0"], ["plan", "--ram", "16GB"], ["predict", "--explain"]])
def test_a_tensor_without_dimensions_does_not_crash(tmp_path, capsys, words):
    plan = small(LLAMA, 2)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes(dict(plan.metadata), [*plan.tensors, Tensor("scale", "F32", (), 4)]))
    main([words[0], str(path), "--device", "RTX 3060", *words[1:]])
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"llama.context_length": 1}, "context of 1 token"),
        ({"llama.nextn_predict_layers": 2}, "nextn_predict_layers"),
        ({"llama.block_count": 2**31}, "llama.block_count = 2,147,483,648"),
        ({"llama.expert_count": 2**40}, "llama.expert_count = 1,099,511,627,776"),
        ({"llama.anything_else": [1, 2**40]}, "llama.anything_else = 1,099,511,627,776"),
    ],
)
def test_impossible_header_numbers_are_refused(tmp_path, capsys, keys, told, wording):
    plan = small(LLAMA, 2)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({**plan.metadata, **keys}, list(plan.tensors)))
    assert main(["plan", str(path), "--device", "RTX 3060"]) == 2
    wording(capsys.readouterr().err, about=told)


@pytest.mark.parametrize("command", ["fit", "plan"])
def test_tensors_beyond_the_last_layer_do_not_crash(tmp_path, capsys, command):
    """Real files have them: layers that predict further tokens, and other towers."""
    folder = checkpoint(tmp_path, 99)
    main([command, folder, "--runtime", "transformers", "--device", "RTX 4090", "--ram", "16GB"])
    assert "Traceback" not in capsys.readouterr().err


def test_every_model_of_the_catalog_passes_the_checks():
    for model in well_known().values():
        made_up(model, "F16").check()


def test_commands_on_random_models_do_not_crash():
    """`python -m lab.fuzz_models` tries more of them."""
    words = [sys.executable, "-m", "lab.fuzz_models", "--count", "60", "--seconds", "45", "--seed", "11"]
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr

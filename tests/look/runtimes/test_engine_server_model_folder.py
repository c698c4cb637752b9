"""The model of a running server whose folder holds only `config.json`, as with `--load-format dummy`."""

import json
from pathlib import Path

import msgspec
import pytest
from lab.replay import serve
from lab.replay.answers import FOLDER
from stored import CHECKPOINTS, checkpoint

from unslow.commands.diagnose.target import read_stored
from unslow.facts.model import Model
from unslow.facts.values import Origin, Unknown, reported_fact
from unslow.look.models.safetensors import config_facts, model_facts, read_checkpoint
from unslow.look.runtimes import vllm
from unslow.look.runtimes._engine_server import with_files
from unslow.look.system.live import LiveSystem
from unslow.think.judge.judge import diagnose

MACHINES = Path(__file__).parents[2] / "machines"
SYSTEM = LiveSystem()
LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 16384, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_8B_PARAMETERS = 8_030_261_248  # https://huggingface.co/meta-llama/Meta-Llama-3-8B: 8.03B by its index


def folder_with(folder: Path, config: dict) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def served_model(tmp_path: Path, config: dict) -> Model:
    """The model of a replayed vLLM that serves the folder."""
    root, answers = folder_with(tmp_path / "llama-8b", config), tmp_path / "answers"
    answers.mkdir()
    for file in (FOLDER / "vllm").glob("*.json"):
        (answers / file.name).write_text(file.read_text().replace("/models/tiny-llama", root))
    with serve("vllm", folder=answers) as url:
        (subject,) = vllm.read_url(SYSTEM, url, "")
    return subject.model


def test_sizes_from_a_config_are_estimates(tmp_path):
    model = served_model(tmp_path, LLAMA_8B)
    assert model.parameters.need() == LLAMA_8B_PARAMETERS
    assert model.weights_bytes.need() == 2 * LLAMA_8B_PARAMETERS
    assert model.weights_bytes.origin is Origin.ESTIMATED
    assert model.weights_bytes.source.endswith("llama-8b: config.json")
    assert (model.quant.need(), model.layers.need(), model.output_tied.need()) == ("BF16", 32, False)
    assert model.name.need() == "tiny-llama"


def test_a_recorded_server_with_a_config_only_gets_a_prediction(tmp_path):
    snapshot = read_stored(str(MACHINES / "vllm_0_26_h200_full"))
    subject = msgspec.structs.replace(snapshot.subjects[0], model=served_model(tmp_path, LLAMA_8B))
    (report,) = diagnose(msgspec.structs.replace(snapshot, subjects=(subject,))).subjects
    interval = report.expected.achievable["decode_tokens_per_s"]
    assert interval.low < report.measured["decode_tokens_per_s"] < interval.high
    assert report.verdict == "normal"


@pytest.mark.parametrize("name", [folder.name for folder in CHECKPOINTS.iterdir() if "mlx" not in folder.name])
def test_sizes_from_a_config_are_close_to_those_of_the_files(name, tmp_path):
    files = read_checkpoint(SYSTEM, str(checkpoint(name, tmp_path / name)))
    exact, counted = model_facts(files), config_facts(files.config, name)
    assert counted.parameters.need() == pytest.approx(exact.parameters.need(), rel=0.01)
    assert counted.weights_bytes.need() == pytest.approx(exact.weights_bytes.need(), rel=0.15)
    assert counted.quant.need() == exact.quant.need()


def test_weights_from_a_log_win_over_the_config(tmp_path):
    root = folder_with(tmp_path / "m", LLAMA_8B)
    said = Model(weights_bytes=reported_fact(15_000_000_000, "vllm.log:7"))
    assert with_files(SYSTEM, said, root).weights_bytes.source == "vllm.log:7"


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "unheard-of"},
        {**LLAMA_8B, "quantization_config": {"quant_method": "unheard-of"}},
        {**LLAMA_8B, "num_hidden_layers": 2**31},
    ],
)
def test_configs_that_cannot_be_counted_say_why(config, tmp_path, wording):
    model = with_files(SYSTEM, Model(), folder_with(tmp_path / "m", config))
    assert isinstance(model.weights_bytes, Unknown)
    wording(model.weights_bytes.why)


def test_broken_weight_files_are_not_replaced_by_an_estimate(tmp_path):
    root = folder_with(tmp_path / "m", LLAMA_8B)
    (tmp_path / "m" / "model.safetensors").write_bytes(b"")
    assert isinstance(with_files(SYSTEM, Model(), root).weights_bytes, Unknown)

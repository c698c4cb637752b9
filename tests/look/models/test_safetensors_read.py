"""Safetensors models written by real tools, single and sharded."""

import json
import os

import msgspec
import pytest
from doubles import FakeSystem
from stored import CHECKPOINTS, checkpoint, safetensors, tensors

from unslow.facts.values import Absence, Known, Origin
from unslow.look.models.safetensors import model_facts, read_checkpoint
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

PARAMETERS = 106_816  # as torch counts them in the model that all of them were made from
SYSTEM = LiveSystem()


def read(path):
    return read_checkpoint(SYSTEM, str(path))


def refusal(path) -> str:
    with pytest.raises(LookError) as caught:
        read(path)
    return caught.value.why


@pytest.mark.parametrize(
    ("name", "quant", "types"),
    [
        ("bf16", "BF16", {"BF16": 213_632}),
        ("bf16_sharded", "BF16", {"BF16": 213_632}),
        ("bnb_nf4", "bitsandbytes NF4", {"BF16": 66_176, "U8 packed 4-bit": 36_864, "F32": 15_288, "U8": 3505}),
        ("bnb_int8", "bitsandbytes INT8", {"I8": 73_728, "BF16": 66_176, "F32": 4096, "U8": 14}),
        ("ct_w4a16", "W4A16", {"BF16": 70_784, "I32 packed 4-bit": 36_864, "I64": 224}),
        ("ct_fp8", "FP8", {"F8_E4M3": 73_728, "BF16": 66_232}),
        ("ct_nvfp4", "NVFP4", {"BF16": 66_176, "U8 packed 4-bit": 36_864, "F8_E4M3": 4608, "F32": 112}),
        ("mlx_4bit", "MLX 4-bit", {"U32 packed 4-bit": 53_248, "BF16": 13_952}),
        ("mlx_6bit", "MLX 6-bit", {"U32 packed 6-bit": 79_872, "BF16": 13_952}),
    ],
)
def test_parameters_are_the_same_for_every_quantization(name, quant, types, tmp_path):
    model = read(checkpoint(name, tmp_path / name))
    facts = model_facts(model)
    assert model.parameters == PARAMETERS
    assert model.type_bytes == types
    assert facts.quant.need() == quant
    assert facts.weights_bytes.need() == sum(types.values())
    assert facts.layers.need() == 2
    assert (facts.heads.need(), facts.kv_heads.need(), facts.key_length.need()) == (4, 2, 16)


def test_every_stored_checkpoint_is_tested():
    assert len(list(CHECKPOINTS.iterdir())) == 9


def test_facts_of_an_unquantized_checkpoint(tmp_path):
    facts = model_facts(read(checkpoint("bf16", tmp_path)), "tiny")
    assert facts.architecture == Known("llama", Origin.REPORTED, "tiny: config.json: model_type")
    assert facts.quant == Known("BF16", Origin.ESTIMATED, "tiny: the type of most bytes")
    assert facts.token_table_bytes.need() == facts.output_bytes.need() == 256 * 64 * 2
    assert facts.output_tied.need() is False
    assert facts.context_trained.need() == 2048
    assert facts.experts.need() == 0


def test_parts_are_found_from_the_folder_a_part_or_the_index(tmp_path):
    folder = checkpoint("bf16_sharded", tmp_path)
    by_folder = read(folder)
    assert len(by_folder.parts) == 4
    for name in ("model-00003-of-00004.safetensors", "model.safetensors.index.json"):
        assert read(folder / name).parts == by_folder.parts
    (folder / "model.safetensors.index.json").unlink()
    assert read(folder).tensors == by_folder.tensors


def test_a_missing_safetensors_part_is_named(tmp_path):
    folder = checkpoint("bf16_sharded", tmp_path)
    (folder / "model-00002-of-00004.safetensors").unlink()
    with pytest.raises(LookError) as caught:
        read(folder)
    assert caught.value.absence is Absence.NOT_FOUND
    assert "model-00002-of-00004.safetensors: not there" in caught.value.why


def test_a_truncated_part_is_refused(tmp_path, wording):
    folder = checkpoint("bf16_sharded", tmp_path)
    os.truncate(folder / "model-00002-of-00004.safetensors", 5000)
    wording(refusal(folder), tells="model-00002-of-00004.safetensors")


def test_an_index_that_disagrees_with_its_files_is_refused(tmp_path, wording):
    folder = checkpoint("bf16_sharded", tmp_path)
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["model.layers.9.ghost.weight"] = "model-00001-of-00004.safetensors"
    path.write_text(json.dumps(index))
    wording(refusal(folder), tells="model.layers.9.ghost.weight")


@pytest.mark.parametrize(
    "text",
    [
        '{"weight_map": {"a": "../../etc/passwd.safetensors"}}',
        '{"weight_map": {"a": "/etc/passwd"}}',
        '{"weight_map": {}}',
        '{"weight_map": 3}',
        "[" * 100_000,
        "",
    ],
)
def test_a_hostile_index_is_refused(text, tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert "its index" in refusal(tmp_path)


def test_a_tensor_in_two_safetensors_parts_is_refused(tmp_path, wording):
    for n in (1, 2):
        (tmp_path / f"model-0000{n}-of-00002.safetensors").write_bytes(safetensors(tensors(a=("F32", (2,)))))
    wording(refusal(tmp_path))


def test_a_folder_with_several_models_is_ambiguous(tmp_path, wording):
    for name in ("one", "two"):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors(tensors(a=("F32", (2,)))))
    wording(refusal(tmp_path))
    assert read(tmp_path / "two.safetensors").parameters == 2


def test_a_consolidated_copy_beside_the_parts_is_not_counted(tmp_path):
    folder = checkpoint("bf16_sharded", tmp_path)
    (folder / "consolidated.safetensors").write_bytes(safetensors(tensors(a=("F32", (2,)))))
    assert read(folder).parameters == PARAMETERS


def test_a_folder_without_a_model_is_refused(tmp_path, wording):
    wording(refusal(tmp_path))
    wording(refusal(tmp_path / "nowhere"))
    os.mkfifo(tmp_path / "model.safetensors")
    wording(refusal(tmp_path))


def test_without_a_config_parameters_are_still_counted(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(safetensors(tensors(a=("F16", (2, 3)))))
    facts = model_facts(read(tmp_path / "x.safetensors"))
    assert facts.parameters.need() == 6
    assert facts.architecture.value_or(None) is None
    assert facts.experts.value_or(None) is None


def test_modelopt_quantization_is_read_from_its_own_file(tmp_path):
    header = tensors(
        l__weight=("U8", (4, 8)), l__weight_scale=("F8_E4M3", (4, 1)), l__weight_scale_2=("F32", ()), n=("BF16", (3,))
    )
    (tmp_path / "model.safetensors").write_bytes(safetensors(header))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "NVFP4", "group_size": 16}}')
    model = read(tmp_path)
    assert model.parameters == 4 * 16 + 3
    assert model.quantization.name == "NVFP4"


def test_a_recorded_checkpoint_replays_identically(tmp_path):
    folder = str(checkpoint("bf16_sharded", tmp_path / "model"))
    recorder = Recorder(SYSTEM, tmp_path / "recording")
    live = read_checkpoint(recorder, folder)
    recorder.close()
    replayed = read_checkpoint(RecordedSystem(tmp_path / "recording"), folder)
    assert msgspec.to_builtins(replayed) == msgspec.to_builtins(live)


def test_an_edited_checkpoint_recording_is_a_failed_look():
    system = FakeSystem(folders={"m": ["model.safetensors"]}, asks={"safetensors m": {"path": 3}})
    with pytest.raises(LookError, match="are not valid"):
        read_checkpoint(system, "m")

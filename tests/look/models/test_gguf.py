"""A model's facts from its header; the header of SmolLM2 is that of its published file."""

import os
import struct
from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.catalog.shapes import shapes
from unslow.facts.values import Absence, Known, Origin, Unknown
from unslow.look.engine.gguf_writer import TensorPlan, encoded_header
from unslow.look.engine.made_up import planned, write
from unslow.look.models.gguf import Gguf, model_facts, part_paths, read_gguf, summary
from unslow.look.models.gguf_header import Tensor, read_header
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

SMOLLM2 = {  # the scalars of SmolLM2-135M-Instruct.Q4_1.gguf, as its publisher wrote them
    "general.architecture": "llama",
    "general.name": "Smollm2 135M 8k Lc100K Mix1 Ep2",
    "llama.block_count": 30,
    "llama.context_length": 8192,
    "llama.embedding_length": 576,
    "llama.feed_forward_length": 1536,
    "llama.attention.head_count": 9,
    "llama.attention.head_count_kv": 3,
    "general.file_type": 3,
    "llama.vocab_size": 49152,
}


def smollm2_tensors() -> list[Tensor]:
    layer = [("attn_q", 576 * 576), ("attn_k", 576 * 192), ("attn_v", 576 * 192), ("attn_output", 576 * 576)]
    layer += [(f"ffn_{n}", 576 * 1536) for n in ("gate", "up", "down")]
    norms = [("attn_norm", 576), ("ffn_norm", 576)]
    found = [Tensor("token_embd.weight", 49152 * 576, "Q8_0", 49152 * 576 // 32 * 34)]
    found.append(Tensor("output_norm.weight", 576, "F32", 2304))
    for n in range(30):
        found += [Tensor(f"blk.{n}.{name}.weight", size, "Q4_1", size // 32 * 20) for name, size in layer]
        found += [Tensor(f"blk.{n}.{name}.weight", size, "F32", size * 4) for name, size in norms]
    return found


def gguf(metadata=None, tensors=(), lengths=None) -> Gguf:
    return Gguf(
        path="m.gguf",
        file_bytes=0,
        metadata=metadata or {},
        array_lengths=lengths or {},
        tensors=summary(list(tensors)),
    )


def test_a_real_model():
    model = model_facts(gguf(SMOLLM2, smollm2_tensors()))
    values = {name: getattr(model, name).value for name in model.__struct_fields__}
    assert values == {
        "name": "Smollm2 135M 8k Lc100K Mix1 Ep2",
        "path": "m.gguf",
        "architecture": "llama",
        "quant": "Q4_1",
        "parameters": 134_515_008,
        "weights_bytes": 96_576_768,
        "layers": 30,
        "context_trained": 8192,
        "width": 576,
        "heads": 9,
        "kv_heads": 3,
        "key_length": 64,
        "value_length": 64,
        "vocabulary": 49152,
        "experts": 0,
        "experts_used": 0,
        "expert_width": 0,
        "expert_bytes": 0,
        "token_table_bytes": 30_081_024,
        "output_bytes": 30_081_024,
        "output_tied": True,
        "made_up": False,
    }
    assert model.layers.source == "m.gguf: llama.block_count"
    assert model.key_length.origin is Origin.ESTIMATED


def test_heads_that_differ_from_layer_to_layer():
    metadata = {**SMOLLM2, "llama.attention.head_count_kv": [0, 8, 0, 4], "llama.attention.key_length": 128}
    model = model_facts(gguf(metadata))
    assert model.kv_heads.value == 8
    assert model.key_length.value == 128
    assert model.key_length.origin is Origin.REPORTED


def test_experts():
    metadata = {
        "general.architecture": "qwen3moe",
        "qwen3moe.expert_count": 128,
        "qwen3moe.expert_used_count": 8,
        "qwen3moe.feed_forward_length": 6144,
        "qwen3moe.expert_feed_forward_length": 768,
    }
    names = ["blk.0.ffn_up_exps.weight", "blk.0.ffn_gate.3.weight", "blk.1.ffn_gate_inp.weight", "output.weight"]
    model = model_facts(gguf(metadata, [Tensor(n, 10, "F16", 20) for n in names]))
    assert (model.experts.value, model.experts_used.value, model.expert_width.value) == (128, 8, 768)
    assert model.expert_bytes.value == 40
    assert model.output_tied.value is False
    assert summary([Tensor(n, 10, "F16", 20) for n in names]).layer_bytes == [40, 20]


def test_a_table_that_is_only_looked_up_counts_as_one():
    tensors = [Tensor("token_embd.weight", 5, "F16", 10), Tensor("per_layer_token_embd.weight", 50, "F16", 100)]
    model = model_facts(gguf({}, tensors))
    assert model.token_table_bytes.value == 110
    assert model.output_bytes.value == 10


def test_without_a_file_type_the_quant_is_an_estimate():
    model = model_facts(gguf({}, [Tensor("a", 9, "F32", 4), Tensor("b", 256, "Q6_K", 210)]))
    assert (model.quant.value, model.quant.origin) == ("Q6_K", Origin.ESTIMATED)


def test_a_guessed_file_type_is_the_same_mix():
    assert model_facts(gguf({"general.file_type": 1024 + 15})).quant.value == "Q4_K_M"


def test_the_vocabulary_can_be_the_length_of_the_token_list():
    metadata = {"general.architecture": "gemma3"}
    assert model_facts(gguf(metadata, lengths={"tokenizer.ggml.tokens": 262144})).vocabulary.value == 262144


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"general.architecture": 7, "general.file_type": "x", "general.name": 3.5},
        {**SMOLLM2, "llama.block_count": -1, "llama.attention.head_count": 0, "llama.embedding_length": 2**64 - 1},
        {**SMOLLM2, "llama.block_count": True, "llama.attention.head_count": [], "llama.embedding_length": "wide"},
    ],
)
def test_nonsense_is_unknown(metadata):
    model = model_facts(gguf(metadata))
    for name in ("layers", "key_length", "weights_bytes", "output_tied"):
        assert isinstance(getattr(model, name), Unknown), name
        assert getattr(model, name).absence is not Absence.NOT_LOOKED
    assert isinstance(model.made_up, Known)


def made_up(path: Path, shape: str = "tiny", quant: str = "Q4_K_M") -> Path:
    with path.open("wb") as file:
        write(planned(shapes()[shape], quant, f"made-up {shape}"), file)
    return path


def test_a_made_up_model_is_read_to_the_byte(tmp_path):
    path = made_up(tmp_path / "tiny.gguf")
    plan = planned(shapes()["tiny"], "Q4_K_M", "made-up tiny")
    with path.open("rb") as file:
        tensors = read_header(file, path.stat().st_size).tensors
    assert [(t.name, t.bytes) for t in tensors] == [(t.name, t.bytes) for t in plan.tensors]
    model = model_facts(read_gguf(LiveSystem(), str(path)))
    assert model.made_up.value is True
    assert (model.layers.value, model.vocabulary.value, model.quant.value) == (2, 1024, "Q4_K_M")
    assert model.weights_bytes.value == sum(t.bytes for t in plan.tensors)


def test_a_recording_answers_like_the_file(tmp_path):
    path = str(made_up(tmp_path / "tiny.gguf"))
    recorder = Recorder(LiveSystem(), tmp_path / "recording")
    seen = read_gguf(recorder, path)
    recorder.close()
    Path(path).unlink()
    assert read_gguf(RecordedSystem(tmp_path / "recording"), path) == seen


def test_a_recording_that_was_edited_is_a_failed_look():
    with pytest.raises(LookError, match="does not fit"):
        read_gguf(FakeSystem(asks={"gguf m.gguf": {"path": 3}}), "m.gguf")


def write_parts(folder: Path, count: int = 3) -> list[Path]:
    paths = [folder / f"m-{n:05}-of-{count:05}.gguf" for n in range(1, count + 1)]
    for n, path in enumerate(paths):
        metadata = {"split.no": n, **({"general.architecture": "llama", "llama.block_count": count} if n == 0 else {})}
        plans = [TensorPlan(f"blk.{n}.ffn_up.weight", (256, 4), 12, 576)]
        path.write_bytes(encoded_header(metadata, plans) + bytes(576))
    return paths


def test_all_parts_of_a_model_are_read_from_any_of_them(tmp_path):
    for path in write_parts(tmp_path):
        found = read_gguf(LiveSystem(), str(path))
        assert found.tensors.layer_bytes == [576, 576, 576]
        assert found.metadata["llama.block_count"] == 3
        assert found.metadata["split.no"] == 0


def test_a_missing_part_is_named(tmp_path):
    paths = write_parts(tmp_path)
    paths[1].unlink()
    with pytest.raises(LookError, match=r"00002-of-00003\.gguf: not there") as caught:
        read_gguf(LiveSystem(), str(paths[0]))
    assert caught.value.absence is Absence.NOT_FOUND
    assert "all of its parts" in caught.value.how_to_get


@pytest.mark.parametrize("name", ["m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-00001-of-99999.gguf"])
def test_parts_that_can_not_be(name):
    with pytest.raises(LookError, match="can't be"):
        part_paths(name)


def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (tmp_path / "pipe.gguf", tmp_path, Path("/dev/zero")):
        with pytest.raises(LookError, match="is not a file"):
            read_gguf(LiveSystem(), str(path))


@pytest.mark.parametrize("path", ["/nowhere/m.gguf", "bad\0name.gguf"])
def test_a_path_that_leads_nowhere(path):
    with pytest.raises(LookError):
        read_gguf(LiveSystem(), path)


def test_the_reason_names_the_file(tmp_path):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0))
    with pytest.raises(LookError, match=r"x\.gguf: speaks of \d+ tensors"):
        read_gguf(LiveSystem(), str(path))

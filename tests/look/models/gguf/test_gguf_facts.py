"""Model facts from a GGUF header; the SmolLM2 header is that of the published file."""

import pytest

from unslow.facts import model as tensor_table
from unslow.facts.model import Tensor
from unslow.facts.values import Absence, Known, Origin, Unknown
from unslow.look.models.gguf import Gguf, model_facts, tensor_summary

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
    layer = [("attn_q", 576, 576), ("attn_k", 576, 192), ("attn_v", 576, 192), ("attn_output", 576, 576)]
    layer += [("ffn_gate", 576, 1536), ("ffn_up", 576, 1536), ("ffn_down", 1536, 576)]
    found = [Tensor("token_embd.weight", "Q8_0", (576, 49152), 49152 * 576 // 32 * 34)]
    found.append(Tensor("output_norm.weight", "F32", (576,), 2304))
    for n in range(30):
        found += [Tensor(f"blk.{n}.{name}.weight", "Q4_1", (x, y), x * y // 32 * 20) for name, x, y in layer]
        found += [Tensor(f"blk.{n}.{name}.weight", "F32", (576,), 2304) for name in ("attn_norm", "ffn_norm")]
    return found


def gguf(metadata=None, tensors=(), lengths=None) -> Gguf:
    return Gguf(
        path="m.gguf",
        file_bytes=0,
        metadata=metadata or {},
        array_lengths=lengths or {},
        tensors=tensor_summary(list(tensors)),
        table=tensor_table.packed_tensors(tensors),
    )


def test_facts_of_the_published_smollm2_header():
    model = model_facts(gguf(SMOLLM2, smollm2_tensors()))
    values = {name: getattr(model, name).value for name in model.__struct_fields__}
    assert tensor_table.unpacked_tensors(values.pop("tensors")) == smollm2_tensors()
    assert values.pop("metadata") == {k: v for k, v in SMOLLM2.items() if k.startswith("llama.")}
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


def test_per_layer_kv_heads_give_their_maximum():
    metadata = {**SMOLLM2, "llama.attention.head_count_kv": [0, 8, 0, 4], "llama.attention.key_length": 128}
    model = model_facts(gguf(metadata))
    assert model.kv_heads.value == 8
    assert model.key_length.value == 128
    assert model.key_length.origin is Origin.REPORTED


def test_expert_counts_widths_and_bytes_are_read():
    metadata = {
        "general.architecture": "qwen3moe",
        "qwen3moe.expert_count": 128,
        "qwen3moe.expert_used_count": 8,
        "qwen3moe.feed_forward_length": 6144,
        "qwen3moe.expert_feed_forward_length": 768,
    }
    names = ["blk.0.ffn_up_exps.weight", "blk.0.ffn_gate.3.weight", "blk.1.ffn_gate_inp.weight", "output.weight"]
    model = model_facts(gguf(metadata, [Tensor(n, "F16", (10,), 20) for n in names]))
    assert (model.experts.value, model.experts_used.value, model.expert_width.value) == (128, 8, 768)
    assert model.expert_bytes.value == 40
    assert model.output_tied.value is False
    assert tensor_summary([Tensor(n, "F16", (10,), 20) for n in names]).layer_bytes == [40, 20]


def test_per_layer_token_tables_count_as_token_table():
    tensors = [Tensor("token_embd.weight", "F16", (5,), 10), Tensor("per_layer_token_embd.weight", "F16", (50,), 100)]
    model = model_facts(gguf({}, tensors))
    assert model.token_table_bytes.value == 110
    assert model.output_bytes.value == 10


def test_without_a_file_type_the_quant_is_an_estimate():
    model = model_facts(gguf({}, [Tensor("a", "F32", (9,), 4), Tensor("b", "Q6_K", (256,), 210)]))
    assert (model.quant.value, model.quant.origin) == ("Q6_K", Origin.ESTIMATED)


def test_the_guessed_flag_of_a_file_type_is_ignored():
    assert model_facts(gguf({"general.file_type": 1024 + 15})).quant.value == "Q4_K_M"


def test_vocabulary_falls_back_to_the_length_of_the_token_list():
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
def test_nonsense_metadata_gives_unknown_facts(metadata):
    model = model_facts(gguf(metadata))
    for name in ("layers", "key_length", "weights_bytes", "output_tied"):
        assert isinstance(getattr(model, name), Unknown), name
        assert getattr(model, name).absence is not Absence.NOT_LOOKED
    assert isinstance(model.made_up, Known)

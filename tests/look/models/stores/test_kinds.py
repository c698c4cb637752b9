import pytest
from stored import extracted

from unslow.facts.stored_model import Kind
from unslow.look.models.stores import checkpoint_kind, find_at, gguf_kind, with_header
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


def test_kinds_of_files_written_by_gguf_py(tmp_path):
    models = [with_header(SYSTEM, m) for m in find_at(SYSTEM, str(extracted(tmp_path) / "ggufs"))]
    assert {m.name: m.kind for m in models} == {
        "big-Q4_0": Kind.MODEL,
        "embed": Kind.EMBEDDING,
        "imatrix": Kind.OTHER,
        "lora": Kind.ADAPTER,
        "mmproj-model-f16": Kind.PROJECTOR,
        "rerank": Kind.RERANKER,
    }


@pytest.mark.parametrize(
    ("metadata", "named", "tensors", "kind"),
    [
        ({"general.architecture": "llama"}, Kind.MODEL, True, Kind.MODEL),
        ({"general.architecture": "llama"}, Kind.PROJECTOR, True, Kind.MODEL),
        ({"general.architecture": "llama"}, Kind.MODEL, False, Kind.OTHER),
        ({"general.architecture": "eagle3"}, Kind.MODEL, True, Kind.DRAFT),
        ({"general.architecture": "qwen35"}, Kind.DRAFT, True, Kind.DRAFT),
        ({"general.architecture": "qwen3", "qwen3.pooling_type": 3}, Kind.MODEL, True, Kind.EMBEDDING),
        ({"general.architecture": "jina-bert-v2"}, Kind.MODEL, True, Kind.EMBEDDING),
        ({"adapter.type": "lora"}, Kind.MODEL, True, Kind.ADAPTER),
        ({}, Kind.MODEL, True, Kind.MODEL),
    ],
)
def test_the_kind_of_a_gguf_comes_from_its_metadata(metadata, named, tensors, kind):
    assert gguf_kind(metadata, named, tensors=tensors) is kind


@pytest.mark.parametrize(
    ("config", "beside", "kind"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, {"config.json"}, Kind.MODEL),
        ({"architectures": ["Qwen3Model"]}, {"modules.json"}, Kind.EMBEDDING),
        ({"model_type": "bert"}, set(), Kind.EMBEDDING),
        ({"architectures": ["XLMRobertaForSequenceClassification"], "model_type": "xlm-roberta"}, set(), Kind.RERANKER),
        ({}, {"adapter_config.json"}, Kind.ADAPTER),
        ({"architectures": 3}, set(), Kind.MODEL),
    ],
)
def test_the_kind_of_a_checkpoint_comes_from_its_config(config, beside, kind):
    assert checkpoint_kind(config, frozenset(beside), Kind.MODEL) is kind

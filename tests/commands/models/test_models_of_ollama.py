"""Models that only Ollama has: `fit`, `predict` and `plan` assume Ollama and its default context."""

import pytest
from lab.fuzz.model_forms import gguf_bytes
from stored import OllamaStore, home

import unslow
from unslow.catalog.models import well_known
from unslow.think.blueprints import made_up


@pytest.fixture(scope="module")
def header() -> bytes:
    """Of an 8B model that was trained for 40,960 tokens; no weights, which memory does not depend on."""
    plan = made_up(next(m for m in well_known().values() if m.name == "Qwen3-8B"), "Q4_K_M")
    metadata = {"general.architecture": plan.architecture, **plan.metadata}
    return gguf_bytes(metadata, list(plan.tensors))


@pytest.fixture
def store(tmp_path, monkeypatch, header):
    store = OllamaStore(home(tmp_path, monkeypatch) / ".ollama" / "models")
    layer = store.layer("model", header)
    store.add("registry.ollama.ai/library/mine/latest", [layer])
    store.add("registry.ollama.ai/library/mine/long", [layer, store.layer("params", b'{"num_ctx": 16384}')])
    return store


@pytest.mark.parametrize(
    ("model", "device", "context"),
    [
        ("mine", "RTX 3060", 4096),
        ("mine", "RTX 3090", 32_768),
        ("mine", "2x RTX 3090", 40_960),  # as the model was trained for, less than Ollama's 262,144
        ("mine:long", "RTX 3060", 16_384),
    ],
)
def test_context_is_the_default_of_ollama(model, device, context, store):
    fit = unslow.fit(model, device=device, ram="32GB")
    plan = unslow.plan(model, device=device, ram="32GB")
    assert (fit.runtime, fit.settings["context"]) == ("ollama", context)
    assert (plan.runtime, plan.goal.context) == ("ollama", context)
    assert unslow.plan(model, device=device, ram="32GB", runtime="llama.cpp").goal.context == 8192


def test_predict_assumes_ollama_unless_a_runtime_is_given(store):
    assert unslow.predict("mine", device="RTX 3060", ram="32GB").place.runtime == "ollama"
    assert unslow.predict("mine", device="RTX 3060", ram="32GB", runtime="llama.cpp").place.runtime == "llama.cpp"

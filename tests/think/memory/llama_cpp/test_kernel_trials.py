"""The small graphs that are tried for kernels: few layers stand for all, and one graph is built once."""

import pytest

from unslow.catalog.models import find_model
from unslow.think.blueprints import made_up
from unslow.think.memo import one_judgement
from unslow.think.memory.llama_cpp import model_graph, need
from unslow.think.memory.llama_cpp.cache import Build, Kernels
from unslow.think.memory.llama_cpp.hyperparameters import Settings, hyper_of
from unslow.think.memory.llama_cpp.places import Places

PLACINGS = (
    Settings(context=4096, gpu_layers=0),
    Settings(context=4096, gpu_layers=7),
    Settings(context=4096, gpu_layers=13, slots=16, outputs=16),
    Settings(context=4096, gpu_layers=20, key_type="Q5_1", value_type="Q8_0"),
    Settings(context=4096, cache_on_gpu=False),
    Settings(context=4096, gpu_layers=11, offload_ops=False),
)
HYBRIDS = ("qwen3.5-0.8b", "granite-4.0-h-tiny")


def usable(name: str, settings: Settings) -> Kernels:
    with one_judgement():
        hyper = hyper_of(made_up(find_model(name), "Q3_K_M"))
        places = Places(hyper, settings, (1.0,))
        return need.usable_kernels(hyper, settings, places, need.backends_of(1))


@pytest.mark.parametrize("name", HYBRIDS)
def test_few_layers_decide_like_all_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few = [usable(name, settings) for settings in PLACINGS]
    monkeypatch.setattr(need, "fewest_layers", lambda kinds: list(range(len(kinds))))
    assert few == [usable(name, settings) for settings in PLACINGS]
    assert len(set(few)) > 1


def test_graph_is_built_once_per_question(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[int, int]] = []

    def noted(build: Build) -> None:
        tried.append((build.tokens, len(build.layers)))
        build_graph(build)

    build_graph = model_graph.build_graph
    monkeypatch.setattr(need, "build_graph", noted)
    assert usable("qwen3.5-0.8b", PLACINGS[1]).flash_attention
    assert [tokens for tokens, _ in tried] == [1, 16]
    assert all(layers <= 14 for _, layers in tried)  # sizes of weights, which differ more often, are no matter here

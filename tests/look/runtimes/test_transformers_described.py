"""A Transformers model object described as plain data, and that data as facts."""

import json
from types import SimpleNamespace

import pytest
from fake_transformers import Config, Model, Tensor

from unslow.facts.values import Unknown
from unslow.look.runtimes.transformers import describe, subject_of

LAYER_BYTES = 2 * (64 * 64 + 176 * 64)
TABLE_BYTES = 2 * 1000 * 64


def test_weights_are_summed_by_device_type_and_layer():
    raw = describe(Model(devices=("cuda:0", "cpu")))
    assert raw["weights"]["devices"] == {"cuda:0": TABLE_BYTES + LAYER_BYTES, "cpu": TABLE_BYTES + LAYER_BYTES}
    assert raw["weights"]["layers"] == {"0": {"cuda:0": LAYER_BYTES}, "1": {"cpu": LAYER_BYTES}}
    assert raw["weights"]["table"] == raw["weights"]["output"] == TABLE_BYTES
    assert (raw["name"], raw["attention"], raw["weights"]["tied"]) == ("org/tiny", "sdpa", False)
    assert json.loads(json.dumps(raw)) == raw, "it can be recorded"


def test_a_shared_input_and_output_matrix_is_tied():
    model = Model()
    model.output = model.table
    assert describe(model)["weights"]["tied"] is True


def test_packed_weights_count_their_unpacked_parameters():
    model = Model()
    model.table = Tensor((32_000, 1), dtype="torch.uint8", width=1)
    model.table.quant_state = SimpleNamespace(shape=(1000, 64))
    raw = describe(model)
    assert raw["weights"]["table"] == 32_000
    plain = describe(Model())
    assert raw["weights"]["count"] == plain["weights"]["count"]


def test_any_object_can_be_described():
    class Strange:
        def named_parameters(self):
            return iter(())

    raw = describe(Strange())
    assert (raw["class"], raw["config"], raw["weights"]["devices"]) == ("Strange", {}, {})
    subject = subject_of(raw, 7)
    assert subject.model.name.need() == "Strange"
    assert subject.runtime.process.pid.need() == 7
    assert isinstance(subject.runtime.placement.layers, Unknown)


def test_a_failing_config_loses_only_itself():
    class Broken(Config):
        def to_json_string(self, *, use_diff):
            raise RuntimeError("no")

    raw = describe(Model(config=Broken()))
    assert raw["config"] == {}
    assert raw["weights"]["devices"]["cpu"] > 0


def test_facts_of_a_model_split_between_gpu_and_cpu():
    subject = subject_of(describe(Model(devices=("cuda:0", "cuda:0", "cpu"))), 1)
    runtime, model = subject.runtime, subject.model
    assert (runtime.name.need(), runtime.compute.attention.need(), runtime.compute.weights_type.need()) == (
        *("Transformers", "sdpa", "bfloat16"),
    )
    assert (runtime.placement.gpu_layers.need(), runtime.placement.layers.need()) == (2, 3)
    assert {(b.device, b.on_gpu) for b in runtime.memory.buffers.need()} == {("cuda:0", True), ("cpu", False)}
    assert model.weights_bytes.need() == sum(b.bytes for b in runtime.memory.buffers.need())
    assert (model.architecture.need(), model.quant.need(), model.layers.need()) == ("llama", "BF16", 2)
    assert (model.heads.need(), model.kv_heads.need(), model.vocabulary.need()) == (4, 2, 1000)


def test_a_gpu_model_is_eager_unless_compiled():
    gpu = ("cuda:0", "cuda:0")
    assert subject_of(describe(Model(gpu)), 1).runtime.compute.eager.need() is True
    static = SimpleNamespace(use_cache=True, cache_implementation="static")
    assert subject_of(describe(Model(gpu, generation_config=static)), 1).runtime.compute.eager.need() is False
    compiled = SimpleNamespace(use_cache=False, cache_implementation=None, compile_config=object())
    runtime = subject_of(describe(Model(gpu, generation_config=compiled)), 1).runtime
    assert (runtime.compute.eager.need(), runtime.cache.prompt_cache.need()) == (False, False)


def test_without_a_gpu_eager_is_unknown(wording):
    eager = subject_of(describe(Model()), 1).runtime.compute.eager
    assert isinstance(eager, Unknown)
    wording(eager.why)


@pytest.mark.parametrize(
    ("capability", "features"),
    [
        ("AVX512", ["AVX512", "AVX2", "FMA", "F16C", "AVX"]),
        ("AVX2", ["AVX2", "FMA", "F16C", "AVX"]),
        ("SVE256", ["SVE256"]),
    ],
)
def test_a_torch_cpu_capability_includes_the_lower_ones(capability, features):
    runtime = subject_of(describe(Model()) | {"torch": {"cpu": capability}}, 1).runtime
    assert runtime.build.features.need() == features


def test_a_cpu_only_torch_build_refuses_the_gpu(wording):
    raw = describe(Model())
    build = {"version": "2.6.0+cpu", "cuda": None, "hip": None, "gpu_available": False, "metal": False, "threads": 4}
    runtime = subject_of(raw | {"torch": build}, 1).runtime
    wording(runtime.placement.gpu_refused.need(), tells="2.6.0+cpu")
    assert (runtime.build.backends.need(), runtime.compute.threads.need()) == (["CPU"], 4)
    blind = subject_of(raw | {"torch": build | {"cuda": "12.4"}}, 1).runtime
    assert "finds no GPU" in blind.placement.gpu_refused.need()
    sees = subject_of(raw | {"torch": build | {"cuda": "12.4", "gpu_available": True}}, 1).runtime
    assert isinstance(sees.placement.gpu_refused, Unknown)
    assert sees.build.backends.need() == ["CUDA", "CPU"]
    mac = subject_of(raw | {"torch": build | {"metal": True}}, 1).runtime
    assert isinstance(mac.placement.gpu_refused, Unknown)
    assert mac.build.backends.need() == ["Metal", "CPU"]


def test_without_torch_backends_are_unknown():
    runtime = subject_of(describe(Model()) | {"torch": {}}, 1).runtime
    assert isinstance(runtime.build.backends, Unknown)
    assert isinstance(runtime.placement.gpu_refused, Unknown)

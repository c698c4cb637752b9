"""A model object in words that can be written down, and those words as facts."""

import json
from types import SimpleNamespace

import pytest
from fake_transformers import Config, Model, Tensor

from unslow.facts.values import Unknown
from unslow.look.runtimes.transformers.in_process import describe, subject_of

LAYER_BYTES = 2 * (64 * 64 + 176 * 64)
TABLE_BYTES = 2 * 1000 * 64


def test_weights_by_device_type_and_layer():
    raw = describe(Model(devices=("cuda:0", "cpu")))
    assert raw["weights"]["devices"] == {"cuda:0": TABLE_BYTES + LAYER_BYTES, "cpu": TABLE_BYTES + LAYER_BYTES}
    assert raw["weights"]["layers"] == {"0": {"cuda:0": LAYER_BYTES}, "1": {"cpu": LAYER_BYTES}}
    assert raw["weights"]["table"] == raw["weights"]["output"] == TABLE_BYTES
    assert (raw["name"], raw["attention"], raw["weights"]["tied"]) == ("org/tiny", "sdpa", False)
    assert json.loads(json.dumps(raw)) == raw, "it can be recorded"


def test_one_matrix_for_input_and_output_is_told():
    model = Model()
    model.output = model.table
    assert describe(model)["weights"]["tied"] is True


def test_packed_weights_count_as_many_as_they_stand_for():
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
    assert subject.runtime.pid.need() == 7
    assert isinstance(subject.runtime.layers, Unknown)


def test_a_config_that_fails_costs_only_itself():
    class Broken(Config):
        def to_json_string(self, *, use_diff):
            raise RuntimeError("no")

    raw = describe(Model(config=Broken()))
    assert raw["config"] == {}
    assert raw["weights"]["devices"]["cpu"] > 0


def test_facts_of_a_model_between_gpu_and_cpu():
    subject = subject_of(describe(Model(devices=("cuda:0", "cuda:0", "cpu"))), 1)
    runtime, model = subject.runtime, subject.model
    assert (runtime.name.need(), runtime.attention.need(), runtime.weights_type.need()) == (
        *("Transformers", "sdpa", "bfloat16"),
    )
    assert (runtime.gpu_layers.need(), runtime.layers.need()) == (2, 3)
    assert {(b.device, b.on_gpu) for b in runtime.buffers.need()} == {("cuda:0", True), ("cpu", False)}
    assert model.weights_bytes.need() == sum(b.bytes for b in runtime.buffers.need())
    assert (model.architecture.need(), model.quant.need(), model.layers.need()) == ("llama", "BF16", 2)
    assert (model.heads.need(), model.kv_heads.need(), model.vocabulary.need()) == (4, 2, 1000)


def test_kernels_are_launched_one_by_one_unless_something_compiles():
    gpu = ("cuda:0", "cuda:0")
    assert subject_of(describe(Model(gpu)), 1).runtime.eager.need() is True
    static = SimpleNamespace(use_cache=True, cache_implementation="static")
    assert subject_of(describe(Model(gpu, generation_config=static)), 1).runtime.eager.need() is False
    compiled = SimpleNamespace(use_cache=False, cache_implementation=None, compile_config=object())
    runtime = subject_of(describe(Model(gpu, generation_config=compiled)), 1).runtime
    assert (runtime.eager.need(), runtime.prompt_cache.need()) == (False, False)


def test_without_a_gpu_there_are_no_graphs_to_be_switched_off(wording):
    eager = subject_of(describe(Model()), 1).runtime.eager
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
def test_a_level_of_instructions_has_those_below_it(capability, features):
    runtime = subject_of(describe(Model()) | {"torch": {"cpu": capability}}, 1).runtime
    assert runtime.build_features.need() == features


def test_a_torch_without_gpu_support_refuses_the_gpu(wording):
    raw = describe(Model())
    build = {"version": "2.6.0+cpu", "cuda": None, "hip": None, "gpu_available": False, "metal": False, "threads": 4}
    runtime = subject_of(raw | {"torch": build}, 1).runtime
    wording(runtime.gpu_refused.need(), tells="2.6.0+cpu")
    assert (runtime.backends.need(), runtime.threads.need()) == (["CPU"], 4)
    blind = subject_of(raw | {"torch": build | {"cuda": "12.4"}}, 1).runtime
    assert "finds no GPU" in blind.gpu_refused.need()
    sees = subject_of(raw | {"torch": build | {"cuda": "12.4", "gpu_available": True}}, 1).runtime
    assert isinstance(sees.gpu_refused, Unknown)
    assert sees.backends.need() == ["CUDA", "CPU"]
    mac = subject_of(raw | {"torch": build | {"metal": True}}, 1).runtime
    assert isinstance(mac.gpu_refused, Unknown)
    assert mac.backends.need() == ["Metal", "CPU"]


def test_without_torch_nothing_is_said_of_it():
    runtime = subject_of(describe(Model()) | {"torch": {}}, 1).runtime
    assert isinstance(runtime.backends, Unknown)
    assert isinstance(runtime.gpu_refused, Unknown)

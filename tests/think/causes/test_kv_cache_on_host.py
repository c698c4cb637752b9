from answers import ask
from cases import gpu_case, with_facts, without

from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB, MIB, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "kv_cache_on_host"
WEIGHTS = Buffer(device="CUDA0", kind="model", bytes=4400 * MIB, on_gpu=True)
ON_HOST = Buffer(device="CPU", kind="kv", bytes=GIB, on_gpu=False)
ON_GPU = Buffer(device="CUDA0", kind="kv", bytes=GIB, on_gpu=True)


def fires():
    return with_facts(gpu_case(), {"runtime.memory.buffers": [WEIGHTS, ON_HOST], "run.decode_tokens_per_s": 40.0})


def test_cache_in_ram_with_weights_on_the_gpu_fires():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].knob == "kv_offload"
    assert report.findings[0].speedup > 2


def test_setting_decides_where_buffers_are_unknown():
    case = with_facts(gpu_case(), {"runtime.memory.buffers": not_found("no log"), "runtime.cache.offload": False})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.cache.offload": True})), Absent)


def test_cache_of_layers_on_the_cpu_is_ruled_out():
    part = Buffer(device="CPU", kind="kv", bytes=GIB // 4, on_gpu=False)
    case = with_facts(gpu_case(21, 5.0), {"runtime.memory.buffers": [WEIGHTS, ON_GPU, part]})
    assert isinstance(ask(NAME, case), Absent)


def test_weights_on_the_cpu_too_are_ruled_out():
    host = Buffer(device="CPU", kind="model", bytes=4400 * MIB, on_gpu=False)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.memory.buffers": [host, ON_HOST]})), Absent)


def test_layer_count_decides_where_weight_buffers_are_unknown():
    case = with_facts(gpu_case(), {"runtime.memory.buffers": [ON_HOST]})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.placement.gpu_layers": 3})), Absent)


def test_offload_off_fires_even_with_few_layers_on_the_gpu():
    """Beside 8 of 33 layers, all of the cache on the host looks like that of the others."""
    host = Buffer(device="CPU", kind="model", bytes=3 * GIB, on_gpu=False)
    few = with_facts(gpu_case(8, 5.0), {"runtime.memory.buffers": [WEIGHTS, host, ON_HOST]})
    assert isinstance(ask(NAME, few), Absent)
    set_so = with_facts(few, {"runtime.cache.offload": False})
    assert isinstance(ask(NAME, set_so), Found)
    assert not CaseView(set_so).placement.read(CaseView(set_so).memory.shape).cache_on_gpu


def test_unknown_layer_counts_give_cannot_tell():
    for unknown in ("runtime.placement.layers", "runtime.placement.gpu_layers"):
        assert isinstance(ask(NAME, without(fires(), unknown)), CannotTell)


def test_half_the_cache_with_half_the_layers_is_ruled_out():
    host = Buffer(device="CPU", kind="kv", bytes=GIB, on_gpu=False)
    case = with_facts(gpu_case(17, 5.0), {"runtime.memory.buffers": [WEIGHTS, ON_GPU, host]})
    assert isinstance(ask(NAME, case), Absent)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.memory.buffers": [WEIGHTS, host]})), Found)

from answers import ask
from cases import gpu_case, with_facts, without

from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB, MIB, not_found
from unslow.think.case.demand import read_shape
from unslow.think.case.placement import read_placement
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "kv_cache_on_host"
WEIGHTS = Buffer(device="CUDA0", kind="model", bytes=4400 * MIB, on_gpu=True)
ON_HOST = Buffer(device="CPU", kind="kv", bytes=GIB, on_gpu=False)
ON_GPU = Buffer(device="CUDA0", kind="kv", bytes=GIB, on_gpu=True)


def fires():
    return with_facts(gpu_case(), {"runtime.buffers": [WEIGHTS, ON_HOST], "run.decode_tokens_per_s": 40.0})


def test_a_cache_in_ram_beside_weights_on_the_gpu():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].knob == "kv_offload"
    assert report.findings[0].speedup > 2


def test_the_setting_decides_where_buffers_are_not_printed():
    case = with_facts(gpu_case(), {"runtime.buffers": not_found("no log"), "runtime.kv_offload": False})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.kv_offload": True})), Absent)


def test_near_miss_with_layers_on_both_sides_the_cache_follows():
    part = Buffer(device="CPU", kind="kv", bytes=GIB // 4, on_gpu=False)
    case = with_facts(gpu_case(21, 5.0), {"runtime.buffers": [WEIGHTS, ON_GPU, part]})
    assert isinstance(ask(NAME, case), Absent)


def test_not_where_everything_is_on_the_cpu():
    host = Buffer(device="CPU", kind="model", bytes=4400 * MIB, on_gpu=False)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.buffers": [host, ON_HOST]})), Absent)


def test_the_count_of_layers_stands_in_for_their_buffers():
    case = with_facts(gpu_case(), {"runtime.buffers": [ON_HOST]})
    assert isinstance(ask(NAME, case), Found)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.gpu_layers": 3})), Absent)


def test_a_setting_holds_for_few_layers_as_well():
    """Beside 8 of 33 layers, all of the cache on the host looks like that of the others."""
    host = Buffer(device="CPU", kind="model", bytes=3 * GIB, on_gpu=False)
    few = with_facts(gpu_case(8, 5.0), {"runtime.buffers": [WEIGHTS, host, ON_HOST]})
    assert isinstance(ask(NAME, few), Absent)
    set_so = with_facts(few, {"runtime.kv_offload": False})
    assert isinstance(ask(NAME, set_so), Found)
    assert not read_placement(set_so, read_shape(set_so)).cache_on_gpu


def test_layers_that_nobody_counted_prove_nothing():
    for unknown in ("runtime.layers", "runtime.gpu_layers"):
        assert isinstance(ask(NAME, without(fires(), unknown)), CannotTell)


def test_near_miss_half_of_the_layers_and_half_of_the_cache():
    host = Buffer(device="CPU", kind="kv", bytes=GIB, on_gpu=False)
    case = with_facts(gpu_case(17, 5.0), {"runtime.buffers": [WEIGHTS, ON_GPU, host]})
    assert isinstance(ask(NAME, case), Absent)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.buffers": [WEIGHTS, host]})), Found)

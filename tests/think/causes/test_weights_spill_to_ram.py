import msgspec
import pytest
from answers import ask
from cases import gpu_case, with_facts
from engines import vllm
from firing import clamped, spilled
from told import pasted

from unslow.facts.snapshot import Contradiction, Statement
from unslow.facts.values import GB, GIB
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "weights_spill_to_ram"
fires = spilled


def test_twelve_layers_on_the_cpu_cost_most_of_the_speed():
    report = judge(spilled())
    assert report.findings[0].cause == NAME
    assert "12 of 33 layers" in report.findings[0].because
    assert report.findings[0].speedup > 5
    assert report.verdict == "slow"


def test_a_well_predicted_spill_is_not_normal():
    as_configured = judge(spilled()).expected.as_configured["decode_tokens_per_s"].mid
    assert judge(with_facts(spilled(), {"run.decode_tokens_per_s": as_configured})).verdict == "slow"


def test_near_miss_layers_low_by_choice():
    assert isinstance(ask(NAME, clamped()), Absent)


def test_near_miss_experts_on_the_cpu_on_purpose():
    experts = {"runtime.tensor_overrides": ["exps=CPU"], "model.experts": 64}
    assert isinstance(ask(NAME, with_facts(spilled(), experts)), Absent)


@pytest.mark.parametrize("override", ["output.weight=CPU", "output_norm.weight=CPU", "exps=CPU", "blk=CUDA0"])
def test_an_override_that_sends_no_layer_away_explains_none_on_the_cpu(override):
    """The model is dense: it has no experts that could leave."""
    case = with_facts(gpu_case(20, 4.0), {"runtime.tensor_overrides": [override]})
    assert isinstance(ask(NAME, case), Found)
    assert NAME in {finding.cause for finding in judge(case).findings}


def test_layers_on_the_cpu_with_room_on_the_gpu_are_no_spill(wording):
    answer = ask(NAME, gpu_case(layers_on_gpu=21, free_gib=20.0))
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_a_smaller_cache_is_offered_with_its_speed():
    answer = ask(NAME, spilled())
    assert isinstance(answer, Found)
    fixes = {fix.knob: fix for fix in judge(spilled()).findings[0].fixes}
    assert fixes["quant"].predicted["decode_tokens_per_s"] > 100
    fix = fixes["kv_cache_type"]
    assert fix.predicted["decode_tokens_per_s"] > 0


def test_the_runtimes_own_count_decides_without_any_sizes():
    report = judge(pasted(gpus=["RTX 3090"], runtime={"gpu_layers": 54, "layers": 65}))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].cost is None
    assert "54 of 65 layers" in report.findings[0].because


def test_the_share_that_ollama_shows_decides_too():
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3060"], runtime={"vram_share": 0.32})), Found)
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3060"], runtime={"vram_share": 1.0})), Absent)


def test_layers_that_a_setting_keeps_off_are_not_counted_against_the_memory():
    set_so = {"gpu_layers": 20, "layers": 33, "gpu_layers_set": 20}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=set_so)), CannotTell)


def test_a_screen_that_says_all_is_cited_beside_the_log():
    says = (Statement(says="65 of 65", source="paste:2"), Statement(says="54 of 65", source="paste:9"))
    case = pasted(gpus=["RTX 3090"], runtime={"gpu_layers": 54, "layers": 65})
    case = msgspec.structs.replace(case, contradictions=(Contradiction(about="gpu_layers", statements=says),))
    assert [e.source for e in judge(case).findings[0].evidence][1:] == ["paste:2", "paste:9"]


def test_a_live_spill_explains_copies_of_weights_for_prompts():
    assert ask(NAME, spilled()).explains is None
    assert "prefill_pcie_bound" in all_causes()[NAME].explains


def test_an_engine_that_fetches_what_has_no_room(wording):
    answer = ask(
        NAME, vllm(tensor_parallel=1, **{"runtime.cpu_offload_bytes": 12 * GIB, "model.weights_bytes": 60 * GB})
    )
    assert isinstance(answer, Found)
    wording(answer.because, tells="12 GiB")
    assert answer.remedies[0].change.knob == "quant"


def test_near_miss_an_engine_that_keeps_all_on_gpus_or_has_room():
    assert isinstance(ask(NAME, vllm()), Absent)
    assert isinstance(ask(NAME, vllm(**{"runtime.cpu_offload_bytes": 12 * GIB})), Absent)


def test_the_margin_of_a_fit_counts_where_the_runtime_keeps_it():
    """All of it would fit to the byte, and the fit leaves layers out to keep a GiB free."""
    sums = {"runtime.asked_bytes": int(5.7 * GIB), "runtime.available_bytes": 6 * GIB}
    case = with_facts(gpu_case(28, 6.0), sums)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.fit": True})), Found)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.fit": False})), Absent)

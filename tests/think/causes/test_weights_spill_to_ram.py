import msgspec
import pytest
from answers import ask
from cases import gpu_case, with_facts
from engines import vllm
from firing import clamped, spilled
from told import pasted

from unslow.facts.snapshot import Contradiction, Statement
from unslow.facts.values import GB, GIB
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "weights_spill_to_ram"
fires = spilled


def test_12_of_33_layers_on_the_cpu_cost_most_of_the_speed():
    report = judge(CaseView(spilled()))
    assert report.findings[0].cause == NAME
    assert "12 of 33 layers" in report.findings[0].because
    assert report.findings[0].speedup > 5
    assert report.verdict == "slow"


def test_a_spill_at_its_predicted_speed_is_still_slow():
    as_configured = judge(CaseView(spilled())).expected.as_configured["decode_tokens_per_s"].mid
    assert judge(CaseView(with_facts(spilled(), {"run.decode_tokens_per_s": as_configured}))).verdict == "slow"


def test_layers_kept_off_by_a_setting_are_not_a_spill():
    assert isinstance(ask(NAME, clamped()), Absent)


def test_experts_sent_to_the_cpu_are_not_a_spill():
    experts = {"runtime.placement.tensor_overrides": ["exps=CPU"], "model.experts": 64}
    assert isinstance(ask(NAME, with_facts(spilled(), experts)), Absent)


@pytest.mark.parametrize("override", ["output.weight=CPU", "output_norm.weight=CPU", "exps=CPU", "blk=CUDA0"])
def test_an_override_that_moves_no_layer_does_not_rule_out_a_spill(override):
    """The model is dense: it has no experts that could leave."""
    case = with_facts(gpu_case(20, 4.0), {"runtime.placement.tensor_overrides": [override]})
    assert isinstance(ask(NAME, case), Found)
    assert NAME in {finding.cause for finding in judge(CaseView(case)).findings}


def test_layers_on_the_cpu_with_room_on_the_gpu_are_not_a_spill(wording):
    answer = ask(NAME, gpu_case(layers_on_gpu=21, free_gib=20.0))
    assert isinstance(answer, Absent)
    wording(answer.because)


def test_fixes_predict_a_speed_for_a_smaller_quant_and_cache():
    answer = ask(NAME, spilled())
    assert isinstance(answer, Found)
    fixes = {fix.knob: fix for fix in judge(CaseView(spilled())).findings[0].fixes}
    assert fixes["quant"].predicted["decode_tokens_per_s"] > 100
    fix = fixes["kv_cache_type"]
    assert fix.predicted["decode_tokens_per_s"] > 0


def test_a_count_of_54_of_65_layers_decides_without_any_sizes():
    report = judge(CaseView(pasted(gpus=["RTX 3090"], runtime={"gpu_layers": 54, "layers": 65})))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].cost is None
    assert "54 of 65 layers" in report.findings[0].because


def test_the_vram_share_of_ollama_ps_decides():
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3060"], runtime={"vram_share": 0.32})), Found)
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3060"], runtime={"vram_share": 1.0})), Absent)


def test_a_layer_count_that_a_setting_asks_for_gives_cannot_tell():
    set_so = {"gpu_layers": 20, "layers": 33, "gpu_layers_set": 20}
    assert isinstance(ask(NAME, pasted(gpus=["RTX 3090"], runtime=set_so)), CannotTell)


def test_contradicting_layer_counts_are_cited_as_evidence():
    says = (Statement(says="65 of 65", source="paste:2"), Statement(says="54 of 65", source="paste:9"))
    case = pasted(gpus=["RTX 3090"], runtime={"gpu_layers": 54, "layers": 65})
    case = msgspec.structs.replace(case, contradictions=(Contradiction(about="gpu_layers", statements=says),))
    assert [e.source for e in judge(CaseView(case)).findings[0].evidence][1:] == ["paste:2", "paste:9"]


def test_a_live_spill_explains_prefill_pcie_bound():
    assert ask(NAME, spilled()).explains is None
    assert "prefill_pcie_bound" in all_causes()[NAME].explains


def test_vllm_offload_for_lack_of_vram_is_found_and_fixed_by_a_smaller_quant(wording):
    answer = ask(
        NAME,
        vllm(tensor_parallel=1, **{"runtime.placement.cpu_offload_bytes": 12 * GIB, "model.weights_bytes": 60 * GB}),
    )
    assert isinstance(answer, Found)
    wording(answer.because, tells="12 GiB")
    assert answer.remedies[0].change.knob == "quant"


def test_vllm_without_offload_or_with_room_is_ruled_out():
    assert isinstance(ask(NAME, vllm()), Absent)
    assert isinstance(ask(NAME, vllm(**{"runtime.placement.cpu_offload_bytes": 12 * GIB})), Absent)


def test_the_fit_margin_counts_only_where_the_runtime_fits_layers_itself():
    """All of it would fit to the byte, and the fit leaves layers out to keep a GiB free."""
    sums = {"runtime.memory.asked_bytes": int(5.7 * GIB), "runtime.memory.available_bytes": 6 * GIB}
    case = with_facts(gpu_case(28, 6.0), sums)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.placement.fit": True})), Found)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.placement.fit": False})), Absent)

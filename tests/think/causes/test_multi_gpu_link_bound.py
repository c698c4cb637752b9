import msgspec
from answers import ask
from cases import gpu_case, r, with_facts, without
from engines import vllm
from several_gpus import two_gpus
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.machine import Gpu, Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import GB, not_found, told_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "multi_gpu_link_bound"


def fires():
    """A model that does not fit on one of the two GPUs."""
    return two_gpus(held=(14.0, 14.0), **{"runtime.placement.split_mode": "row", "run.decode_tokens_per_s": 20.0})


def test_row_split_over_pcie_below_the_expected_speed_is_found():
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    assert finding.fixes[0].value == "layer"
    assert finding.speedup > 2


def test_layer_split_is_ruled_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.placement.split_mode": "layer"})), Absent)


def test_nvlink_or_expected_speed_or_one_gpu_rules_it_out():
    linked = with_facts(fires(), {"machine.gpus.0.nvlinks_active": 4, "machine.gpus.1.nvlinks_active": 4})
    assert isinstance(ask(NAME, linked), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 120.0})), Absent)
    assert isinstance(ask(NAME, with_facts(gpu_case(), {"runtime.placement.split_mode": "row"})), Absent)


def test_trial_of_tensor_parallelism_decides_if_it_names_its_sides():
    text = "with tensor parallel 1045.8 -> 378.9 T/s"
    answer = ask(NAME, tried(378.9, 1045.8, Topic.TENSOR_PARALLEL, metric="prefill", text=text))
    assert isinstance(answer, Found)
    assert 2.7 < answer.speedup < 2.8
    assert isinstance(ask(NAME, tried(100.0, 104.0, Topic.SPLIT_MODE)), Absent)
    untold = ask(NAME, tried(378.9, 1045.8, Topic.TENSOR_PARALLEL, metric="prefill"))
    assert isinstance(untold, CannotTell)
    assert untold.suspected


def test_trial_with_a_slow_layer_split_recommends_the_fast_one(wording):
    text = "-sm layer 25 t/s, -sm row 40 t/s"
    answer = ask(NAME, tried(25.0, 40.0, Topic.SPLIT_MODE, text=text))
    assert isinstance(answer, Found)
    wording(answer.because, tells="1.6")
    assert answer.remedies[0].change.value == "row"
    in_use = with_facts(Case(), {"runtime.placement.split_mode": "row"})
    assert isinstance(ask(NAME, tried(25.0, 40.0, Topic.SPLIT_MODE, text=text, case=in_use)), Absent)


def test_fewer_gpus_that_were_faster_are_found(wording):
    answer = ask(NAME, tried(21.0, 31.0, Topic.GPU_COUNT, text="8x H100: 21 tok/s, 4x A100: 31 tok/s"))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("4 GPUs", "8"))
    text = "one GPU 17 t/s, tensor parallel on 2 GPUs 29 t/s"
    assert isinstance(ask(NAME, tried(17.0, 29.0, Topic.GPU_COUNT, Topic.TENSOR_PARALLEL, text=text)), Absent)


def test_gpus_taking_turns_give_cannot_tell_and_a_layer_split_rules_it_out():
    unknown = without(fires(), "runtime.placement.split_mode")
    turns = saying(Topic.GPUS_TAKE_TURNS, "each GPU sits at 50 %", slow="decode", case=unknown)
    assert isinstance(ask(NAME, turns), CannotTell)
    assert isinstance(ask(NAME, with_facts(turns, {"runtime.placement.split_mode": "layer"})), Absent)


def updated(before: str, since: str, gpus: int = 4, name: str = "llama.cpp") -> Case:
    cards = tuple(Gpu(index=i, name=r("NVIDIA RTX A5000")) for i in range(gpus))
    case = Case(machine=Machine(gpus=r(cards)), runtime=Runtime(name=r(name)))
    case = tried(8.0, 15.11, Topic.VERSION, case=case)
    account = msgspec.structs.replace(
        case.account, version_before=told_fact(before, "t:1"), version_since=told_fact(since, "t:1")
    )
    return msgspec.structs.replace(case, account=account)


def test_update_that_changed_the_default_split_is_found():
    report = judge(CaseView(updated("b1842", "b1843")))
    assert report.findings[0].cause == NAME
    assert report.findings[0].fixes[0].value == "row"


def test_other_update_or_one_gpu_or_other_runtime_is_not_found():
    assert not isinstance(ask(NAME, updated("b8322", "b8323")), Found)
    assert not isinstance(ask(NAME, updated("b1842", "b1843", gpus=1)), Found)
    assert not isinstance(ask(NAME, updated("b1842", "b1843", name="vLLM")), Found)


def test_suspicion_of_a_person_gives_cannot_tell_with_a_command():
    answer = ask(NAME, saying(Topic.SPLIT_MODE, "the default split mode changed to layer", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert "-sm layer,row" in answer.how_to_get


def test_row_split_over_pcie_without_a_speed_needs_a_complaint():
    case = with_facts(two_gpus(**{"runtime.placement.split_mode": "row"}), {"run.decode_tokens_per_s": r(None)})
    unmeasured = msgspec.structs.replace(case, run=Case().run)
    assert isinstance(ask(NAME, saying(slow="decode", case=unmeasured)), Found)
    assert isinstance(ask(NAME, unmeasured), CannotTell)


def test_slow_row_split_is_found_with_unknown_links_but_tensor_parallelism_is_not():
    unread = {f"machine.gpus.{i}.nvlinks_active": not_found("no") for i in (0, 1)}
    unread |= {f"machine.gpus.{i}.name": "NVIDIA GeForce RTX 3090" for i in (0, 1)}
    answer = ask(NAME, with_facts(fires(), unread))
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == "layer"
    parallel = with_facts(
        fires(), unread | {"runtime.placement.split_mode": not_found("no"), "runtime.placement.tensor_parallel": 2}
    )
    assert isinstance(ask(NAME, parallel), CannotTell), "over NVLink that is the best split"


def test_slow_tensor_parallelism_over_pcie_recommends_layers_only_if_faster():
    report = judge(CaseView(vllm(**{"model.weights_bytes": 40 * GB, "run.decode_tokens_per_s": 12.0})))
    (finding,) = (f for f in report.findings if f.cause == NAME)
    assert [fix.knob for fix in finding.fixes] == ["split_mode", "link"]
    faster = judge(CaseView(vllm(**{"model.weights_bytes": 40 * GB, "run.decode_tokens_per_s": 24.0})))
    (finding,) = (f for f in faster.findings if f.cause == NAME)
    assert [fix.knob for fix in finding.fixes] == ["link"], "whole layers on each GPU would be no faster"


def test_tensor_parallelism_at_the_expected_speed_is_ruled_out():
    assert isinstance(ask(NAME, vllm(**{"model.weights_bytes": 40 * GB, "run.decode_tokens_per_s": 40.0})), Absent)

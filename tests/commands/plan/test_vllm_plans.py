"""Plans for vLLM: of recorded servers, and of models and GPUs by name against published speeds."""

from pathlib import Path

import pytest
from tests.stored import checkpoint

from unslow.commands.plan import PlanRequest
from unslow.commands.plan.planner import make_plan as planned_by_name
from unslow.commands.plan.safetensors import (
    asked_for,
    cards_of_case,
    checkpoints_of,
    find_hf_model,
    named_cards,
    other_checkpoints,
    plan_safetensors,
    vllm_question,
)
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.machine import Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, parse_snapshot
from unslow.facts.values import Unknown, reported_fact
from unslow.look.command_writer import AtHand
from unslow.look.runtimes.vllm import commands
from unslow.look.system.live import LiveSystem
from unslow.think.case.view import CaseView
from unslow.think.hardware import Hardware
from unslow.think.plan.report import PlanReport
from unslow.think.plan.vllm.search import Point, Search

MACHINES = Path(__file__).parents[2] / "machines"


def case(name: str) -> Case:
    return next(parse_snapshot((MACHINES / name / "snapshot.json").read_bytes()).cases())


def planned(name: str, **flags: object) -> PlanReport:
    return plan_safetensors(LiveSystem(), PlanRequest.from_flags({"runtime": "vllm", **flags}), CaseView(case(name)))


def changes(report: PlanReport) -> dict[str, object]:
    assert report.recommended is not None
    return {change.knob: change.value for change in report.options[report.recommended].changes}


def gain(report: PlanReport) -> float:
    assert report.recommended is not None
    return report.options[report.recommended].speedup or 0.0


@pytest.mark.parametrize(
    ("name", "knob", "least"),
    [
        ("built_vllm_eager_by_its_log_alone", "graphs", 3.0),
        ("built_vllm_queue_of_eight", "parallel", 2.0),
        ("built_vllm_eight_copies_of_sixteen_places", "parallel", 1.3),
        ("built_vllm_preempts_beside_free_memory", "memory_share", 1.2),
        ("built_vllm_preemptions", "memory_share", 1.1),
    ],
)
def test_misconfigured_server_gets_only_the_wrong_knob_changed(name: str, knob: str, least: float) -> None:
    report = planned(name)
    assert report.verdict == "better"
    assert set(changes(report)) == {knob}
    assert gain(report) > least
    assert report.current
    assert report.current.speed


@pytest.mark.parametrize(
    "name", ["built_vllm_at_rest_after_a_busy_day", "built_vllm_busy_without_preemption", "built_vllm_eight_h100",
             "built_vllm_two_a6000_without_a_bridge"],
)  # fmt: skip
def test_well_configured_server_has_nothing_to_gain(name: str) -> None:
    report = planned(name)
    assert report.verdict == "already_best"
    assert not changes(report)


def test_longer_context_than_configured_is_something_to_gain() -> None:
    now = case("built_vllm_at_rest_after_a_busy_day").runtime.context.length.value_or(0)
    report = planned("built_vllm_at_rest_after_a_busy_day", context=now + 1024)
    assert report.verdict == "better"
    assert int(str(changes(report)["context_length"])) >= now + 1024


def test_users_default_to_the_requests_of_the_server(wording) -> None:
    busy = planned("built_vllm_queue_of_eight")
    assert busy.goal.users == 30
    wording(busy.notes[0], tells="22")
    assert planned("built_vllm_queue_of_eight", users=4).goal.users == 4
    copies = planned("built_vllm_eight_copies_of_sixteen_places")
    assert copies.goal.users == 32  # 256 at most, over eight copies
    assert any("8 copies" in note for note in copies.notes)


def test_offloaded_weights_need_a_smaller_checkpoint() -> None:
    report = planned("built_vllm_fetches_weights_for_want_of_room")
    assert report.verdict == "impossible"
    assert "27.5 GiB" in report.reason
    assert report.current
    assert report.current.speed
    assert report.current.speed.decode_tokens_per_s.mid < 2
    smaller = planned("built_vllm_fetches_weights_for_want_of_room", model="qwen2.5-14b", quant="AWQ")
    assert smaller.verdict == "better"


def test_gguf_file_is_refused() -> None:
    with pytest.raises(UserError):
        planned("built_vllm_gguf_file")


def test_memory_held_by_the_server_itself_counts_as_free() -> None:
    cards = cards_of_case(CaseView(case("built_vllm_eight_h100")))
    assert isinstance(cards, Hardware)
    assert cards.linked
    assert len(cards.rooms) == 8
    assert all(room.others_bytes < 2**30 for room in cards.rooms)
    assert [device.name for device in cards.devices] == ["H100 SXM"] * 8
    assert isinstance(cards_of_case(CaseView(Case(machine=Machine()))), Unknown)


def test_cpu_server_gives_cannot_tell(tmp_path: Path, wording) -> None:
    checkpoint("bf16", tmp_path / "tiny")
    runtime = Runtime().with_facts(name=reported_fact("vLLM", "test"), device_used=reported_fact("cpu", "test"))
    request = PlanRequest(model=str(tmp_path / "tiny"), runtime="vllm")
    report = plan_safetensors(LiveSystem(), request, CaseView(Case(machine=Machine(), runtime=runtime)))
    assert (report.verdict, report.machine) == ("cannot_tell", "no known GPU")
    wording(report.reason)
    assert "unslow plan MODEL --runtime vllm --device" in report.hint


@pytest.mark.parametrize(
    ("model", "quant", "device", "tensor", "users", "graphs", "published"),
    [
        # lab/data/measurements.csv: single streams, then output tokens of all users together; vLLM 0.23 on RTX 3090
        ("Qwen3-8B", "BF16", "RTX 4090", 1, 1, True, 58.7),
        ("Qwen3.6-27B", "BF16", "RTX 3090", 4, 1, True, 35.6),
        ("Qwen3.6-27B", "GPTQ", "RTX 3090", 2, 1, True, 52.3),
        ("gemma-4-12b", "AWQ", "RTX 3090", 1, 1, True, 53.0),
        ("gemma-4-12b", "AWQ", "RTX 3090", 2, 1, True, 86.0),
        # October 2023: vLLM records graphs since December (https://github.com/vllm-project/vllm/pull/1926)
        ("llama 2 70b", "F16", "A100 80GB SXM", 2, 1, False, 15.27),
        ("Qwen3.6-27B", "BF16", "RTX 3090", 4, 96, True, 307.5),
        ("Qwen3.6-27B", "GPTQ", "RTX 3090", 2, 64, True, 404.4),
    ],
)
def test_speed_agrees_with_published_measurements(
    model: str, quant: str, device: str, tensor: int, users: int, *, graphs: bool, published: float
) -> None:
    point, answer = priced(model, quant, f"{tensor}x {device}", tensor, users, eager=not graphs)
    predicted = users * answer / point.served.request_s.mid if users > 1 else point.served.decode.mid
    assert published / 1.35 < predicted < published * 1.35


ASKED_AT_ONCE = {"prompt": 388, "kept": 124, "answer": 128}
"""vLLM 0.26.0, Llama 3 8B in BF16, prompts of 512 tokens, all asked at once (tests/machines/vllm_0_26_h200_full): of a
quarter of them 496 tokens were still cached, by its own count."""


@pytest.mark.parametrize(("users", "measured"), [(64, 5519.1), (256, 7452.2)])
def test_throughput_agrees_with_a_real_vllm_on_an_h200(users: int, measured: float) -> None:
    point, answer = priced("llama 3.1 8b", "BF16", "1x H200", 1, users, **ASKED_AT_ONCE)
    assert users * answer / point.served.request_s.mid == pytest.approx(measured, rel=0.2)


def test_time_between_tokens_beside_prompts_agrees_with_a_real_vllm_on_an_h200() -> None:
    """Half of the users are answered before the second half of the prompts is read, which their tokens wait for."""
    users = 256
    point, answer = priced("llama 3.1 8b", "BF16", "1x H200", 1, users, **ASKED_AT_ONCE)
    prompts_s = users * ASKED_AT_ONCE["prompt"] / point.served.prefill.mid
    between_s = (point.served.request_s.mid - prompts_s / 2) / answer
    assert 1000 * between_s == pytest.approx(20.96, rel=0.2)


def priced(
    model: str, quant: str, devices: str, tensor: int, users: int, *, eager: bool = False, **workload: int
) -> tuple[Point, int]:
    request = PlanRequest(model=model, quant=quant, devices=(devices,), runtime="vllm", context=2048, users=users)
    request = request._replace(**{"prompt": 512, "answer": 256, **workload})
    system = LiveSystem()
    cards = named_cards(system, request)
    assert isinstance(cards, Hardware)
    asked = vllm_question(request, asked_for(system, request, None), cards, None)
    choice = asked.default()._replace(tensor=tensor, context=2048, eager=eager)
    return Search(asked).point(choice), asked.goal.answer_tokens


def test_named_model_and_gpus_get_a_plan() -> None:
    flags = {"model": "llama 3.3 70b", "quant": "AWQ", "devices": ["2x RTX 4090"], "runtime": "vllm", "users": 4}
    report = plan_safetensors(LiveSystem(), PlanRequest.from_flags(flags))
    assert report.verdict == "better"
    assert report.current is None
    assert report.machine == "2x RTX 4090"
    assert changes(report)["split_mode"] == 2
    assert report.searched
    assert report.searched.priced < report.searched.combinations


def test_missing_model_or_too_long_prompt_is_refused(wording) -> None:
    with pytest.raises(UserError, match="no model given"):
        find_hf_model(LiveSystem(), PlanRequest(runtime="vllm"), None)
    long = PlanRequest(model="llama 3.1 8b", runtime="vllm", devices=("RTX 4090",), context=512, prompt=600)
    with pytest.raises(UserError) as caught:
        plan_safetensors(LiveSystem(), long)
    wording(str(caught.value))


def test_unknown_gpu_gives_cannot_tell() -> None:
    report = plan_safetensors(LiveSystem(), PlanRequest(model="llama 3.1 8b", runtime="vllm", devices=("24GB",)))
    assert report.verdict == "cannot_tell"
    assert report.hint


def test_plain_weights_can_be_quantized_at_load_where_supported() -> None:
    found = find_hf_model(LiveSystem(), PlanRequest(model="llama 3.1 8b", runtime="vllm"), None)
    plain, rounded = checkpoints_of(found, "ada")
    assert sum(p.bytes for p in rounded.parts) < 0.62 * sum(p.bytes for p in plain.parts)
    assert len(checkpoints_of(found, "turing")) == 1
    wide = find_hf_model(LiveSystem(), PlanRequest(model="llama 3.1 8b", runtime="vllm", quant="F32"), None)
    halved = checkpoints_of(wide, "ada")[0]
    assert sum(p.bytes for p in halved.parts) == pytest.approx(sum(p.bytes for p in plain.parts), rel=0.001)


def test_same_model_in_another_format_on_disk_is_an_option(tmp_path: Path) -> None:
    for kind, name in (("bf16", "tiny"), ("ct_fp8", "tiny-FP8"), ("mlx_4bit", "tiny-4bit"), ("ct_w4a16", "other-4bit")):
        checkpoint(kind, tmp_path / name)
    found = find_hf_model(LiveSystem(), PlanRequest(model=str(tmp_path / "tiny"), runtime="vllm"), None)
    assert [other.quant for other in other_checkpoints(LiveSystem(), found)] == ["FP8"]
    flags = {"model": str(tmp_path / "tiny"), "devices": ["RTX 4090"], "runtime": "vllm", "context": 2048}
    report = plan_safetensors(LiveSystem(), PlanRequest.from_flags(flags))
    assert report.recommended is not None
    assert report.options[report.recommended].quant == "BF16"  # the other one has other answers
    paths = {s.value for option in report.options for s in option.settings if s.knob == "model_file"}
    assert paths <= {str(tmp_path / "tiny-FP8")}
    assert any(r.what == "tiny-FP8" for r in report.rejected) or paths


def test_pipeline_stages_and_device_choice_are_spelled() -> None:
    changes = [Change(Knob.SPLIT_MODE, "layer 3"), Change(Knob.DEVICE, "0,2,3")]
    spelled = commands.commands_for(changes, Runtime(), AtHand(anew=True))
    assert not spelled.left_out
    assert "--pipeline-parallel-size 3" in " ".join(spelled.lines)
    assert spelled.environment["CUDA_VISIBLE_DEVICES"] == "0,2,3"


def test_given_context_is_planned_and_in_the_command() -> None:
    flags = {"runtime": "vllm", "model": "gpt-oss-120b", "devices": ["H100 SXM"], "context": "16384"}
    report = planned_by_name(LiveSystem(), PlanRequest.from_flags(flags))
    assert report.recommended is not None
    assert {option.context for option in report.options} == {16_384}
    (line,) = [c for c in report.options[report.recommended].commands if c.startswith("vllm serve")]
    assert line == "vllm serve --max-model-len 16384"
    del flags["context"]
    assert {o.context for o in planned_by_name(LiveSystem(), PlanRequest.from_flags(flags)).options} != {16_384}

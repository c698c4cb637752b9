"""What a user asks of `unslow plan` is done or refused with the reason; assumptions are noted."""

from pathlib import Path

import pytest
from lab.replay import serve

from unslow.commands.plan import PlanRequest
from unslow.commands.plan.planner import make_plan
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.think.plan.report import PlanReport

MACHINES = Path(__file__).parents[2] / "machines"
SMALL = "smollm2-135m"
CARD = {"devices": ("RTX 4090",), "ram_bytes": 32 * 2**30}


def plan(model: str, **wishes: object) -> PlanReport:
    request = PlanRequest(model=model)._replace(given=frozenset(wishes), **wishes)  # type: ignore[arg-type]
    return make_plan(LiveSystem(), request)


def seen(name: str, **wishes: object) -> PlanReport:
    return plan(str(MACHINES / name), **wishes)


@pytest.mark.parametrize(
    ("machine", "wishes", "why"),
    [
        ("lab_cpu_healthy_small", {"quant": "Q8_0"}, "cannot be changed"),
        ("lab_cpu_healthy_small", {"ram_bytes": 2**36}, "cannot be changed"),
        ("lab_cpu_healthy_small", {"draft": "no-such-model-9b"}, "no-such-model-9b"),
        ("built_ollama_leaves_layers_out", {"draft": SMALL}, "not plan draft models for ollama"),
        ("lab_gpu_stranger_leaves_4_gib", {"draft": "qwen3-0.6b"}, "its vocabulary differs"),
        ("lab_gpu_stranger_leaves_4_gib", {"margin_bytes": 2**40}, "leaves nothing of a GPU"),
        ("lab_cpu_healthy_small", {"answer": 100_000}, "does not fit a context"),
        ("built_vllm_queue_of_eight", {"answer": 1_000_000}, "does not fit a context"),
        ("built_vllm_queue_of_eight", {"margin_bytes": 2**40}, "leaves nothing of a GPU"),
        ("built_vllm_queue_of_eight", {"ram_bandwidth": 1e9}, "so --ram-bandwidth does not apply"),
    ],
)
def test_impossible_wishes_for_a_running_server_are_refused(machine: str, wishes: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        seen(machine, **wishes)


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ({"answer": 9000}, "does not fit a context of 8,192"),
        ({"margin_bytes": 100 * 2**30}, "--margin 100 GiB leaves nothing of a GPU with 24 GiB"),
        ({"draft": "qwen3-0.6b"}, "151,936 tokens, not 49,152"),
        ({"draft": SMALL, "runtime": "vllm"}, "not plan draft models for vllm"),
        ({"threads": 4, "runtime": "vllm"}, "so --threads does not apply"),
        ({"ram_bandwidth": 1e9, "runtime": "transformers"}, "so --ram-bandwidth does not apply"),
        ({"margin_bytes": 100 * 2**30, "runtime": "vllm"}, "leaves nothing of a GPU with 24 GiB"),
    ],
)
def test_impossible_wishes_for_a_model_are_refused(wishes: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        plan(SMALL, **CARD, **wishes)


def test_given_ram_bandwidth_applies_to_a_recorded_server() -> None:
    before, after = seen("lab_cpu_healthy_small"), seen("lab_cpu_healthy_small", ram_bandwidth=2e9)
    assert before.current
    assert after.current
    assert before.current.speed
    assert after.current.speed
    assert after.current.speed.decode_tokens_per_s.mid < 0.8 * before.current.speed.decode_tokens_per_s.mid


def test_more_users_than_slots_is_something_to_gain(wording) -> None:
    report = seen("lab_cpu_healthy_small", users=8)
    assert report.verdict == "better"
    assert "parallel" in {change.knob for change in report.options[report.recommended or 0].changes}
    wording(report.notes)


def test_draft_model_is_planned_for_a_recorded_server(wording) -> None:
    report = seen("lab_cpu_healthy_small", draft=SMALL)
    assert "draft SmolLM2-135M" in report.options[-1].name
    wording(report.notes, tells="70%")
    assert not any("-md" in line for line in report.options[-1].commands)


def test_report_says_whether_the_server_is_running() -> None:
    ran = seen("lab_cpu_healthy_small")
    assert (ran.of_running, ran.url) == (True, "")  # what ran elsewhere is not at its address here
    assert not plan(SMALL, **CARD).of_running


def test_url_of_a_running_server_is_kept() -> None:
    with serve("ollama") as url:
        report = plan(f"{url}/api/chat")
    assert (report.of_running, report.url) == (True, url)


def notes(**wishes: object) -> str:
    return "\n".join(plan(SMALL, **wishes).notes)


def test_context_beyond_training_is_noted(wording) -> None:
    wording(notes(**CARD, context=16384), tells="8,192")
    assert "trained for" not in notes(**CARD, context=8192)


def test_unknown_host_memory_is_noted() -> None:
    told = "Host memory size not given"
    assert told in notes(devices=("RTX 4090",))
    assert told not in notes(**CARD)
    assert told not in notes(devices=("M2 Max 32GB",))  # whose GPU has the host's memory


def test_named_cpu_is_the_one_planned_for(wording) -> None:
    def tokens_per_s(name: str, **wishes: object) -> float:
        report = plan("llama-3.1-8b", devices=(name,), ram_bytes=2**36, **wishes)
        assert report.current
        assert report.current.speed
        return report.current.speed.decode_tokens_per_s.mid

    assert tokens_per_s("EPYC 9654") > 1.5 * tokens_per_s("Ryzen 9 7950X")
    assert tokens_per_s("EPYC 9654", ram_bandwidth=20e9) < tokens_per_s("Ryzen 9 7950X")
    wording(notes(devices=("EPYC 9654",), ram_bytes=2**36), tells=("9654", "461 GB/s"))


def test_defaults_that_do_not_fit_the_context_are_noted() -> None:
    tight, wide = (
        plan("llama-3.1-8b", devices=("Ryzen 9 7950X",), ram_bytes=gib * 2**30, context=131072) for gib in (15, 32)
    )
    assert tight.recommended is not None
    for report, told in ((tight, True), (wide, False)):
        assert any("do not fit here" in note for note in report.notes) is told


def test_default_answer_length_is_cut_to_a_small_context() -> None:
    assert plan(SMALL, **CARD, context=256).goal.answer_tokens == 128


@pytest.mark.parametrize("runtime", ["ollama", "lm_studio", "llama.cpp"])
def test_commands_do_not_invent_a_file_for_a_model_that_is_not_here(runtime: str) -> None:
    report = plan("llama-3.1-8b", devices=("RTX 3060",), runtime=runtime)
    said = "\n".join(line for option in report.options for line in option.commands)
    assert said
    assert "FROM Llama" not in said
    assert "Llama-3.1-8B" not in said
    assert "by hand: " in said

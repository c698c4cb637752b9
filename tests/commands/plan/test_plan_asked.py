"""What a user asks of `unslow plan` is done, or refused in words; what is taken for granted is said."""

from pathlib import Path

import pytest
from lab.replay import serve

from unslow.commands.plan import PlanRequest
from unslow.commands.plan.planner import planned
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.think.plan.report import PlanReport

MACHINES = Path(__file__).parents[2] / "machines"
SMALL = "smollm2-135m"
CARD = {"devices": ("RTX 4090",), "ram_bytes": 32 * 2**30}


def plan(model: str, **wishes: object) -> PlanReport:
    request = PlanRequest(model=model)._replace(given=frozenset(wishes), **wishes)  # type: ignore[arg-type]
    return planned(LiveSystem(), request)


def seen(name: str, **wishes: object) -> PlanReport:
    return plan(str(MACHINES / name), **wishes)


@pytest.mark.parametrize(
    ("machine", "wishes", "why"),
    [
        ("lab_cpu_healthy_small", {"quant": "Q8_0"}, "its own quant"),
        ("lab_cpu_healthy_small", {"ram_bytes": 2**36}, "its own devices"),
        ("lab_cpu_healthy_small", {"draft": "no-such-model-9b"}, "no-such-model-9b"),
        ("built_ollama_leaves_layers_out", {"draft": SMALL}, "not planned for ollama"),
        ("lab_gpu_stranger_leaves_4_gib", {"draft": "qwen3-0.6b"}, "its vocabulary is another one"),
        ("lab_gpu_stranger_leaves_4_gib", {"margin_bytes": 2**40}, "to stay free of a GPU"),
        ("lab_cpu_healthy_small", {"answer": 100_000}, "does not fit a context"),
        ("built_vllm_queue_of_eight", {"answer": 1_000_000}, "does not fit a context"),
        ("built_vllm_queue_of_eight", {"margin_bytes": 2**40}, "to stay free of a GPU"),
        ("built_vllm_queue_of_eight", {"ram_bandwidth": 1e9}, "so --ram-bandwidth has no meaning"),
    ],
)
def test_what_can_not_be_had_of_what_runs_is_refused(machine: str, wishes: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        seen(machine, **wishes)


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ({"answer": 9000}, "does not fit a context of 8,192"),
        ({"margin_bytes": 100 * 2**30}, "--margin 100 GiB is to stay free of a GPU of 24 GiB"),
        ({"draft": "qwen3-0.6b"}, "of 151,936 tokens and not 49,152"),
        ({"draft": SMALL, "runtime": "vllm"}, "not planned for vllm"),
        ({"threads": 4, "runtime": "vllm"}, "so --threads has no meaning"),
        ({"ram_bandwidth": 1e9, "runtime": "transformers"}, "so --ram-bandwidth has no meaning"),
        ({"margin_bytes": 100 * 2**30, "runtime": "vllm"}, "to stay free of a GPU of 24 GiB"),
    ],
)
def test_what_can_not_be_had_of_a_model_is_refused(wishes: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        plan(SMALL, **CARD, **wishes)


def test_the_speed_of_memory_that_is_given_counts_for_what_runs() -> None:
    before, after = seen("lab_cpu_healthy_small"), seen("lab_cpu_healthy_small", ram_bandwidth=2e9)
    assert before.current
    assert after.current
    assert before.current.speed
    assert after.current.speed
    assert after.current.speed.decode_tokens_per_s.mid < 0.8 * before.current.speed.decode_tokens_per_s.mid


def test_more_room_than_there_is_is_something_to_gain(wording) -> None:
    report = seen("lab_cpu_healthy_small", users=8)
    assert report.verdict == "better"
    assert "parallel" in {change.knob for change in report.options[report.recommended or 0].changes}
    wording(report.notes)


def test_a_draft_counts_for_a_recorded_server_too(wording) -> None:
    report = seen("lab_cpu_healthy_small", draft=SMALL)
    assert "draft SmolLM2-135M" in report.options[-1].name
    wording(report.notes, tells="70%")
    assert not any("-md" in line for line in report.options[-1].commands)


def test_whether_something_runs_is_a_field() -> None:
    ran = seen("lab_cpu_healthy_small")
    assert (ran.of_running, ran.url) == (True, "")  # what ran elsewhere is not at its address here
    assert not plan(SMALL, **CARD).of_running


def test_the_address_of_what_runs_here_is_kept() -> None:
    with serve("ollama") as url:
        report = plan(f"{url}/api/chat")
    assert (report.of_running, report.url) == (True, url)


def notes(**wishes: object) -> str:
    return "\n".join(plan(SMALL, **wishes).notes)


def test_a_context_beyond_the_training_is_noted(wording) -> None:
    wording(notes(**CARD, context=16384), tells="8,192")
    assert "trained for" not in notes(**CARD, context=8192)


def test_a_host_that_nobody_described_is_noted() -> None:
    told = "how much memory the host has was not said"
    assert told in notes(devices=("RTX 4090",))
    assert told not in notes(**CARD)
    assert told not in notes(devices=("M2 Max 32GB",))  # whose GPU has the host's memory


def test_processors_that_are_named_are_those_that_are_planned_for(wording) -> None:
    def tokens_per_s(name: str, **wishes: object) -> float:
        report = plan("llama-3.1-8b", devices=(name,), ram_bytes=2**36, **wishes)
        assert report.current
        assert report.current.speed
        return report.current.speed.decode_tokens_per_s.mid

    assert tokens_per_s("EPYC 9654") > 1.5 * tokens_per_s("Ryzen 9 7950X")
    assert tokens_per_s("EPYC 9654", ram_bandwidth=20e9) < tokens_per_s("Ryzen 9 7950X")
    wording(notes(devices=("EPYC 9654",), ram_bytes=2**36), tells=("9654", "461 GB/s"))


def test_a_context_that_the_runtime_alone_finds_no_room_for_is_noted() -> None:
    tight, wide = (
        plan("llama-3.1-8b", devices=("Ryzen 9 7950X",), ram_bytes=gib * 2**30, context=131072) for gib in (15, 32)
    )
    assert tight.recommended is not None
    for report, told in ((tight, True), (wide, False)):
        assert any("does by itself finds no room" in note for note in report.notes) is told


def test_an_answer_that_nobody_asked_for_is_cut_to_a_small_context() -> None:
    assert plan(SMALL, **CARD, context=256).goal.answer_tokens == 128


@pytest.mark.parametrize("runtime", ["ollama", "lm_studio", "llama.cpp"])
def test_no_name_is_made_up_for_a_model_that_is_not_here(runtime: str) -> None:
    report = plan("llama-3.1-8b", devices=("RTX 3060",), runtime=runtime)
    said = "\n".join(line for option in report.options for line in option.commands)
    assert said
    assert "FROM Llama" not in said
    assert "Llama-3.1-8B" not in said
    assert "by hand: " in said

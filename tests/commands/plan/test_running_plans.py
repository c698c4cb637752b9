"""Plans for recorded machines: known fixes are found, healthy servers are left unchanged."""

from pathlib import Path

import pytest

from unslow.commands.plan import PlanRequest
from unslow.commands.plan.planner import make_plan
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.think.plan.report import OptionShown, PlanReport

MACHINES = Path(__file__).parents[2] / "machines"


def plan(name: str, **wishes: object) -> PlanReport:
    request = PlanRequest(model=str(MACHINES / name))._replace(given=frozenset(wishes), **wishes)  # type: ignore[arg-type]
    return make_plan(LiveSystem(), request)


def best(report: PlanReport) -> OptionShown:
    assert report.recommended is not None, report.reason
    return report.options[report.recommended]


def changes(report: PlanReport) -> dict[str, object]:
    return {change.knob: change.value for change in best(report).changes}


def test_too_few_threads_is_the_only_change() -> None:
    report = plan("lab_cpu_threads_too_few")
    assert report.verdict == "better"
    assert changes(report) == {"threads": None}
    assert best(report).changes[0].was == 1
    assert best(report).commands == ("/srv/srv/llama-server -m /srv/models/small.gguf --host 127.0.0.1 --port 8640",)
    assert report.current is not None
    assert report.current.speed is not None
    assert report.current.measured_tokens_per_s == pytest.approx(report.current.speed.decode_tokens_per_s.mid, rel=0.4)


def test_healthy_server_has_nothing_to_gain() -> None:
    report = plan("lab_cpu_healthy_small")
    assert report.verdict == "already_best"
    assert best(report).speedup == pytest.approx(1, abs=0.04)


def test_gpu_shared_with_another_process_is_filled_to_the_margin() -> None:
    report = plan("lab_gpu_stranger_leaves_4_gib")
    assert report.verdict == "better"
    wanted = changes(report)
    assert wanted["fit"] is False
    assert wanted["context_length"] == 4096, "its own fit chose it: without fit nobody would say it"
    assert isinstance(best(report).speedup, float)
    assert (best(report).speedup or 0) > 1.3
    (line,) = best(report).commands
    assert line.startswith("/srv/llama-server -m /srv/models/llama8b.gguf")
    assert "--fit off" in line
    assert "-c 4096" in line
    free = best(report).devices[0].free_bytes
    assert free is not None
    assert free >= 2**28


def test_threads_beyond_the_cpu_quota_are_reduced() -> None:
    report = plan("built_container_of_two_cpus_with_16_threads")
    assert changes(report)["threads"] == 2
    assert report.current is not None
    assert report.current.speed is not None
    assert report.current.speed.decode_tokens_per_s.mid == pytest.approx(0.4, rel=0.3)


def test_ollama_gets_a_derived_model_with_supported_parameters() -> None:
    report = plan("built_ollama_num_gpu_20_and_keep_alive_0")
    assert (report.runtime, report.verdict) == ("ollama", "better")
    assert changes(report) == {"gpu_layers": None}
    assert any("ollama create" in line for line in best(report).commands)
    assert any("from the catalog" in note for note in report.notes)


@pytest.mark.real
def test_model_that_did_not_load_gets_a_plan_that_fits() -> None:
    report = plan("lab_gpu_compute_buffer_does_not_fit")
    assert report.verdict == "better"
    assert report.current is None
    assert any("did not load" in note for note in report.notes)
    assert best(report).commands


def test_unsupported_runtime_gives_cannot_tell() -> None:
    report = plan("built_exllama_near_its_bandwidth")
    assert (report.verdict, report.recommended) == ("cannot_tell", None)
    assert "exllamav2" in report.reason
    assert report.hint


def test_flags_override_observed_work() -> None:
    report = plan("lab_cpu_threads_too_few", context=2048, prompt=1024, users=2)
    assert (report.goal.context, report.goal.prompt_tokens, report.goal.users) == (2048, 1024, 2)
    assert changes(report)["parallel"] == 2


def test_other_runtime_or_device_than_the_running_one_is_refused(wording) -> None:
    with pytest.raises(UserError) as caught:
        plan("lab_cpu_threads_too_few", runtime="vllm")
    wording(str(caught.value))
    with pytest.raises(UserError) as caught:
        plan("lab_cpu_threads_too_few", devices=("RTX 4090",))
    wording(str(caught.value))


@pytest.mark.real
@pytest.mark.parametrize("folder", sorted(f for f in MACHINES.iterdir() if f.is_dir()), ids=lambda folder: folder.name)
def test_every_recorded_machine_gets_a_plan_or_a_reason(folder: Path) -> None:
    try:
        report = plan(folder.name)
    except UserError as error:
        assert "no running model in" in str(error)  # noqa: PT017 (a machine alone)
        return
    assert report.recommended is not None or report.reason
    if "healthy" in folder.name and report.current:
        assert report.verdict == "already_best"

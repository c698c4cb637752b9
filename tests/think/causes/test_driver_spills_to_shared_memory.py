from answers import ask
from cases import gpu_case, with_facts
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.units import GIB
from unslow.think.causes._cause import Absent, CannotTell
from unslow.think.judge import judge

NAME = "driver_spills_to_shared_memory"
USED = says(Topic.SHARED_MEMORY_USED, "6 GB of shared GPU memory in use")


def fires():
    return with_facts(gpu_case(), {"machine.gpus.0.shared_used_bytes": 6 * GIB, "run.decode_tokens_per_s": 9.0})


def test_six_gib_of_a_model_that_counts_as_on_the_gpu():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert "6.0 GiB" in report.findings[0].because


def test_what_task_manager_shows_is_seen_by_whoever_says_it():
    report = judge(pasted(USED, gpus=["RTX 3090", "RTX 3090"], system="Windows 10"))
    assert report.verdict == "slow"
    assert report.findings[0].cause == NAME
    assert report.findings[0].evidence[0].source == "paste:3"


def test_a_few_hundred_mib_are_a_desktop():
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.gpus.0.shared_used_bytes": GIB // 2})), Absent)


def test_layers_on_the_cpu_are_the_runtimes_own_doing():
    case = with_facts(gpu_case(21, 5.0), {"machine.gpus.0.shared_used_bytes": 6 * GIB})
    assert isinstance(ask(NAME, case), Absent)


def test_an_integrated_gpu_always_uses_the_systems_memory():
    assert isinstance(ask(NAME, pasted(USED, gpus=["Intel(R) UHD Graphics 770"], system="Windows 11")), Absent)


def test_shared_memory_of_nobody_knows_what_is_only_suspected():
    vague = says(Topic.SHARED_MEMORY_USED, "docker shared memory is 64m")
    assert isinstance(ask(NAME, pasted(vague, gpus=["RTX 3090"], system="Linux")), CannotTell)


def test_a_figure_that_any_desktop_shows_is_none():
    for text in ("Shared GPU memory 0.3/15.9 GB", "shared GPU memory usage 200 MB"):
        little = says(Topic.SHARED_MEMORY_USED, text)
        assert isinstance(ask(NAME, pasted(little, gpus=["RTX 3090"], system="Windows 11")), CannotTell)

from answers import ask
from cases import cpu_case, gpu_case, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "cpu_clock_limited"


def fires():
    return with_facts(
        cpu_case(),
        {
            "machine.cpu.frequency_hz": 4e8,
            "machine.cpu.frequency_max_hz": 3.6e9,
            "machine.cpu.governor": "powersave",
            "machine.load.busy_cpus": 2.0,
            "run.decode_tokens_per_s": 0.2,
        },
    )


def test_a_busy_cpu_at_its_lowest_step():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert "0.4 of 3.6 GHz (governor powersave)" in finding.because
    assert finding.speedup > 2


def test_the_clock_of_an_idle_cpu_is_a_suspicion():
    answer = ask(NAME, with_facts(fires(), {"machine.load.busy_cpus": 0.1}))
    assert isinstance(answer, CannotTell)
    assert "grep MHz" in answer.how_to_get


def test_a_figure_that_somebody_saw_during_generation_decides():
    case = saying(Topic.CPU_CLOCK_LOW, "the CPU clock is 400 MHz during generation", slow="decode")
    assert isinstance(ask(NAME, case), Found)
    assert judge(case).findings[0].cause == NAME


def test_a_trial_with_other_clocks_where_the_cpu_computes():
    answer = ask(NAME, tried(3.0, 9.0, Topic.CLOCKS, case=cpu_case()))
    assert isinstance(answer, Found)
    assert answer.speedup == 3.0
    assert isinstance(ask(NAME, tried(3.0, 9.0, Topic.CLOCKS)), CannotTell)
    assert isinstance(ask(NAME, tried(3.0, 9.0, Topic.CLOCKS, case=gpu_case())), Absent)


def test_a_governor_alone_is_a_suspicion():
    answer = ask(NAME, saying(Topic.CPU_CLOCK_LOW, "the governor is powersave", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_not_where_the_gpu_computes_everything():
    case = saying(Topic.CPU_CLOCK_LOW, "the CPU clock is 400 MHz", slow="decode", case=gpu_case())
    assert isinstance(ask(NAME, case), Absent)


def test_not_at_the_speed_that_is_expected():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 3.3})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.cpu.frequency_hz": 3e9})), Absent)

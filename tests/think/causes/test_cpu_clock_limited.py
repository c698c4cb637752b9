from answers import ask
from cases import cpu_case, gpu_case, with_facts
from made_up_telemetry import sampled, stat
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.values import estimated
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

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


def test_a_busy_cpu_at_its_lowest_step(wording):
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="0.4 of 3.6")
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


def test_near_miss_the_gpu_computes_everything():
    case = saying(Topic.CPU_CLOCK_LOW, "the CPU clock is 400 MHz", slow="decode", case=gpu_case())
    assert isinstance(ask(NAME, case), Absent)


def test_not_at_the_speed_that_is_expected():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 3.3})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.cpu.frequency_hz": 3e9})), Absent)


def under_load(clock_hz: float, busy: float = 2.0):
    case = with_facts(cpu_case(), {"machine.cpu.frequency_max_hz": 3.6e9, "run.decode_tokens_per_s": 0.2})
    return with_facts(case, {"run.telemetry": sampled(cpu_clock_hz=stat(clock_hz), busy_cpus=stat(busy))})


def test_the_clock_that_was_sampled_while_it_generated_decides():
    answer = ask(NAME, under_load(8e8))
    assert isinstance(answer, Found)
    assert "0.8 of 3.6 GHz" in answer.because
    assert isinstance(ask(NAME, under_load(3.2e9)), Absent)


def test_near_miss_one_core_that_slept_while_others_worked():
    assert not isinstance(ask(NAME, under_load(8e8, busy=0.3)), Found)


def test_near_miss_the_nominal_clock_of_a_virtual_machine():
    nominal = with_facts(fires(), {"machine.cpu.frequency_hz": estimated(4e8, "/proc/cpuinfo")})
    answer = ask(NAME, nominal)
    assert isinstance(answer, CannotTell)


def test_near_miss_the_gpu_has_most_to_do():
    clock = {n: getattr(fires().machine.cpu, n) for n in ("frequency_hz", "frequency_max_hz")}
    case = with_facts(gpu_case(layers_on_gpu=32), {f"machine.cpu.{n}": fact for n, fact in clock.items()})
    wide = {"machine.cpu.physical_cores": 16, "machine.cpu.logical_cpus": 16, "runtime.threads": 16}
    case = with_facts(case, wide | {"machine.memory.read_bytes_per_s": 200e9, "machine.load.busy_cpus": 16.0})
    case = with_facts(case, {"run.decode_tokens_per_s": 20.0})
    assert not isinstance(ask(NAME, case), Found)


def test_a_cpu_that_boosts_for_a_second_is_held_low_for_the_rest():
    """As a hot laptop does: its highest clock says nothing of the tokens that follow."""
    clock = {"cpu_clock_hz": stat(1.3e9, low=1.1e9, high=4.4e9), "busy_cpus": stat(2.0)}
    facts = {"machine.cpu.frequency_max_hz": 4.6e9, "run.decode_tokens_per_s": 0.8}
    answer = ask(NAME, with_facts(cpu_case(), {"run.telemetry": sampled(**clock), **facts}))
    assert isinstance(answer, Found)
    assert "1.3 of 4.6 GHz" in answer.because
    half = sampled(**clock | {"busy_cpus": stat(1.2)})
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"run.telemetry": half, **facts})), CannotTell)


def board(clock_hz: float, **more):
    """A board with four ARM cores of one kind, all at work."""
    facts = {
        "machine.cpu.instruction_sets": ["dotprod", "neon"],
        "machine.cpu.efficiency_cores": 0,
        "machine.cpu.frequency_hz": clock_hz,
        "machine.cpu.frequency_max_hz": 2.4e9,
        "machine.cpu.governor": "ondemand",
        "machine.load.busy_cpus": 2.0,
        "run.decode_tokens_per_s": 0.5,
    }
    return with_facts(cpu_case(), facts | more)


def test_a_board_without_boost_holds_its_clock_unless_it_is_hot(wording):
    finding = judge(board(1.5e9, **{"machine.cpu.temperature_c": 85.0})).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells=("1.5 of 2.4", "85 °C"))
    assert "fan" in finding.fixes[0].why
    assert isinstance(ask(NAME, board(2.3e9)), Absent)


def test_a_governor_that_asks_for_full_speed_is_not_what_holds_it_back():
    finding = judge(board(1.5e9)).findings[0]
    assert finding.fixes[0].value is None
    assert "power supply" in finding.fixes[0].why


def test_a_limit_that_was_set_is_lifted_rather_than_the_governor_changed(wording):
    limited = {"machine.cpu.frequency_limit_hz": 1.2e9, "machine.system.on_battery": True}
    finding = judge(with_facts(fires(), limited)).findings[0]
    wording(finding.because, tells="1.2 GHz")
    assert finding.fixes[0].value == "-u 3600MHz"


def two_kinds(**clocks):
    """Four of eight cores at work, on the fast half of a board; the first core is a slow one."""
    kinds = {"machine.cpu.physical_cores": 8, "machine.cpu.logical_cpus": 8, "machine.cpu.efficiency_cores": 4}
    figures = {name: stat(value) for name, value in clocks.items()} | {"busy_cpus": stat(4.0)}
    return with_facts(board(1.0e9), kinds | {"run.telemetry": sampled(**figures)})


def test_the_clock_of_a_core_that_nobody_uses_proves_nothing():
    answer = ask(NAME, two_kinds(cpu_clock_hz=4.08e8))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert isinstance(ask(NAME, two_kinds(own_clock_hz=4.08e8)), Found)
    assert isinstance(ask(NAME, two_kinds(own_clock_hz=2.3e9)), Absent)

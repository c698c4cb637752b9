from answers import ask
from cases import cpu_case, gpu_case, with_facts
from made_up_telemetry import sampled, stat
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.values import estimated_fact
from unslow.think.case.view import CaseView
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


def test_busy_cpu_at_its_lowest_clock_is_found(wording):
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="0.4 of 3.6")
    assert finding.speedup > 2


def test_low_clock_of_an_idle_cpu_is_only_suspected():
    answer = ask(NAME, with_facts(fires(), {"machine.load.busy_cpus": 0.1}))
    assert isinstance(answer, CannotTell)
    assert "grep MHz" in answer.how_to_get


def test_told_clock_in_mhz_is_found():
    case = saying(Topic.CPU_CLOCK_LOW, "the CPU clock is 400 MHz during generation", slow="decode")
    assert isinstance(ask(NAME, case), Found)
    assert judge(CaseView(case)).findings[0].cause == NAME


def test_trial_with_other_clocks_is_found_only_where_the_cpu_computes():
    answer = ask(NAME, tried(3.0, 9.0, Topic.CLOCKS, case=cpu_case()))
    assert isinstance(answer, Found)
    assert answer.speedup == 3.0
    assert isinstance(ask(NAME, tried(3.0, 9.0, Topic.CLOCKS)), CannotTell)
    assert isinstance(ask(NAME, tried(3.0, 9.0, Topic.CLOCKS, case=gpu_case())), Absent)


def test_told_governor_without_a_clock_is_only_suspected():
    answer = ask(NAME, saying(Topic.CPU_CLOCK_LOW, "the governor is powersave", slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_told_clock_is_ruled_out_where_all_layers_are_on_the_gpu():
    case = saying(Topic.CPU_CLOCK_LOW, "the CPU clock is 400 MHz", slow="decode", case=gpu_case())
    assert isinstance(ask(NAME, case), Absent)


def test_expected_speed_or_high_clock_rules_it_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"run.decode_tokens_per_s": 3.3})), Absent)
    assert isinstance(ask(NAME, with_facts(fires(), {"machine.cpu.frequency_hz": 3e9})), Absent)


def under_load(clock_hz: float, busy: float = 2.0):
    case = with_facts(cpu_case(), {"machine.cpu.frequency_max_hz": 3.6e9, "run.decode_tokens_per_s": 0.2})
    return with_facts(case, {"run.telemetry": sampled(cpu_clock_hz=stat(clock_hz), busy_cpus=stat(busy))})


def test_clock_sampled_during_decode_decides_both_ways(wording):
    answer = ask(NAME, under_load(8e8))
    assert isinstance(answer, Found)
    wording(answer.because, tells="0.8 of 3.6 GHz")
    assert isinstance(ask(NAME, under_load(3.2e9)), Absent)


def test_sampled_clock_with_few_busy_cores_is_not_found():
    assert not isinstance(ask(NAME, under_load(8e8, busy=0.3)), Found)


def test_nominal_clock_of_a_virtual_machine_gives_cannot_tell():
    nominal = with_facts(fires(), {"machine.cpu.frequency_hz": estimated_fact(4e8, "/proc/cpuinfo")})
    answer = ask(NAME, nominal)
    assert isinstance(answer, CannotTell)


def test_low_cpu_clock_is_not_found_where_the_gpu_dominates():
    clock = {n: getattr(fires().machine.cpu, n) for n in ("frequency_hz", "frequency_max_hz")}
    case = with_facts(gpu_case(layers_on_gpu=32), {f"machine.cpu.{n}": fact for n, fact in clock.items()})
    wide = {"machine.cpu.physical_cores": 16, "machine.cpu.logical_cpus": 16, "runtime.compute.threads": 16}
    case = with_facts(case, wide | {"machine.memory.read_bytes_per_s": 200e9, "machine.load.busy_cpus": 16.0})
    case = with_facts(case, {"run.decode_tokens_per_s": 20.0})
    assert not isinstance(ask(NAME, case), Found)


def test_mean_clock_decides_despite_a_short_boost(wording):
    clock = {"cpu_clock_hz": stat(1.3e9, low=1.1e9, high=4.4e9), "busy_cpus": stat(2.0)}
    facts = {"machine.cpu.frequency_max_hz": 4.6e9, "run.decode_tokens_per_s": 0.8}
    answer = ask(NAME, with_facts(cpu_case(), {"run.telemetry": sampled(**clock), **facts}))
    assert isinstance(answer, Found)
    wording(answer.because, tells="1.3 of 4.6 GHz")
    half = sampled(**clock | {"busy_cpus": stat(1.2)})
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"run.telemetry": half, **facts})), CannotTell)


def board(clock_hz: float, **more):
    """A board with four ARM cores of one kind, all busy."""
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


def test_hot_arm_board_below_its_clock_is_found_with_cooling_as_fix(wording):
    finding = judge(CaseView(board(1.5e9, **{"machine.cpu.temperature_c": 85.0}))).findings[0]
    assert finding.cause == NAME
    wording(finding.because, finding.fixes[0].why, tells=("1.5 of 2.4", "85 °C"))
    assert isinstance(ask(NAME, board(2.3e9)), Absent)


def test_ondemand_governor_is_not_blamed_but_power_supply_is(wording):
    finding = judge(CaseView(board(1.5e9))).findings[0]
    assert finding.fixes[0].value is None
    wording(finding.fixes[0].why, tells="ondemand")


def test_set_frequency_limit_is_lifted_by_the_fix(wording):
    limited = {"machine.cpu.frequency_limit_hz": 1.2e9, "machine.system.on_battery": True}
    finding = judge(CaseView(with_facts(fires(), limited))).findings[0]
    wording(finding.because, tells="1.2 GHz")
    assert finding.fixes[0].value == "-u 3600MHz"


def two_kinds(**clocks):
    """Four of eight cores busy, on the fast half of a board; the first core is a slow one."""
    kinds = {"machine.cpu.physical_cores": 8, "machine.cpu.logical_cpus": 8, "machine.cpu.efficiency_cores": 4}
    figures = {name: stat(value) for name, value in clocks.items()} | {"busy_cpus": stat(4.0)}
    return with_facts(board(1.0e9), kinds | {"run.telemetry": sampled(**figures)})


def test_clock_of_an_unused_slow_core_is_only_suspected():
    answer = ask(NAME, two_kinds(cpu_clock_hz=4.08e8))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert isinstance(ask(NAME, two_kinds(own_clock_hz=4.08e8)), Found)
    assert isinstance(ask(NAME, two_kinds(own_clock_hz=2.3e9)), Absent)

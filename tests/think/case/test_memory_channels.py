import pytest
from cases import cpu_case, with_facts

from unslow.facts.values import GB, measured_fact
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge


def desktop(read_gb_per_s: float, model: str = "AMD Ryzen 5 5600G with Radeon Graphics", **facts):
    read = {"machine.memory.read_bytes_per_s": measured_fact(read_gb_per_s * GB, "memchr"), "machine.cpu.model": model}
    return with_facts(cpu_case(), read | facts)


def test_desktop_with_single_channel_bandwidth_is_detected():
    assert CaseView(desktop(18.6)).host.slow_as_one_channel == pytest.approx(18.6 * GB)


@pytest.mark.parametrize(
    "case",
    [
        desktop(38.0),
        desktop(18.6, "Intel(R) N100"),
        desktop(18.6, "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz"),
        desktop(18.6, **{"machine.system.hypervisor": "KVM"}),
    ],
)
def test_dual_channel_or_single_channel_cpus_are_not_flagged(case):
    assert CaseView(case).host.slow_as_one_channel is None


def test_normal_speed_for_slow_memory_mentions_the_memory(wording):
    case = desktop(18.6)
    speed = judge(CaseView(case)).expected.achievable["decode_tokens_per_s"].mid
    report = judge(CaseView(with_facts(case, {"run.decode_tokens_per_s": speed})))
    assert report.verdict == "normal"
    wording(report.summary, tells="19 GB/s")
    assert "dmidecode" in report.summary

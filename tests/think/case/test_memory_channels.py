import pytest
from cases import cpu_case, with_facts

from unslow.facts.values import GB, measured
from unslow.think.case.bandwidth import slow_as_one_channel
from unslow.think.judge.judge import judge


def desktop(read_gb_per_s: float, model: str = "AMD Ryzen 5 5600G with Radeon Graphics", **facts):
    read = {"machine.memory.read_bytes_per_s": measured(read_gb_per_s * GB, "memchr"), "machine.cpu.model": model}
    return with_facts(cpu_case(), read | facts)


def test_a_desktop_with_one_module():
    assert slow_as_one_channel(desktop(18.6)) == pytest.approx(18.6 * GB)


@pytest.mark.parametrize(
    "case",
    [
        desktop(38.0),
        desktop(18.6, "Intel(R) N100"),
        desktop(18.6, "Intel(R) Core(TM) i7-4770 CPU @ 3.40GHz"),
        desktop(18.6, **{"machine.system.hypervisor": "KVM"}),
    ],
)
def test_near_miss_two_channels_or_none_to_miss(case):
    assert slow_as_one_channel(case) is None


def test_what_is_normal_for_the_memory_need_not_be_for_the_machine(wording):
    case = desktop(18.6)
    speed = judge(case).expected.achievable["decode_tokens_per_s"].mid
    report = judge(with_facts(case, {"run.decode_tokens_per_s": speed}))
    assert report.verdict == "normal"
    wording(report.summary, tells="19 GB/s")
    assert "dmidecode" in report.summary

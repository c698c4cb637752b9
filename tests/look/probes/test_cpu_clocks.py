import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence, Origin, Unknown
from unslow.look.kernel import CPUINFO
from unslow.look.probes.cpu import MOST_POLICIES, POLICIES, parse_cpuinfo_mhz, read


def machine(policies):
    files = {
        f"{POLICIES}/{name}/{file}": text
        for name, texts in policies.items()
        for file, text in zip(("scaling_governor", "scaling_cur_freq", "cpuinfo_max_freq"), texts, strict=True)
    }
    return FakeSystem(files=files, folders={POLICIES: [*policies, "ondemand"]})


def test_cpufreq_gives_governor_mean_and_maximum_clock():
    cpu = read(
        machine({"policy0": ("powersave", "800000", "4700000"), "policy1": ("powersave", "1200000", "3500000")})
    ).cpu
    assert cpu.governor.need() == "powersave"
    assert cpu.frequency_hz.need() == pytest.approx(1e9)
    assert cpu.frequency_max_hz.need() == pytest.approx(4.7e9)


def test_different_governors_are_all_named():
    cpu = read(machine({"policy0": ("schedutil", "1", "2"), "policy4": ("performance", "1", "2")})).cpu
    assert cpu.governor.need() == "performance, schedutil"


def test_cpufreq_policies_are_sampled_on_a_large_machine():
    many = {f"policy{i}": ("performance", "3000000", "3000000") for i in range(256)}
    assert f"mean of {MOST_POLICIES}" in read(machine(many)).cpu.frequency_hz.source


def test_an_empty_policy_of_an_offline_cpu_is_skipped():
    cpu = read(machine({"policy0": ("powersave", "800000", "2000000"), "policy1": ("", "<unknown>", "")})).cpu
    assert cpu.frequency_hz.need() == pytest.approx(8e8)


def test_a_virtual_machine_has_an_estimated_clock_only():
    text = "flags\t\t: fpu hypervisor avx\ncpu MHz\t\t: 2793.436\n"
    cpu = read(FakeSystem(files={CPUINFO: text}, folders={POLICIES: []})).cpu
    assert cpu.frequency_hz.need() == pytest.approx(2793.436e6)
    assert cpu.frequency_hz.origin is Origin.ESTIMATED
    assert cpu.governor.absence is Absence.NOT_SUPPORTED
    assert cpu.frequency_max_hz.absence is Absence.NOT_SUPPORTED


def test_cpuinfo_mhz_is_the_mean_over_all_cpus():
    fact = parse_cpuinfo_mhz("cpu MHz : 1000.0\nflags : avx\n\ncpu MHz : 3000.0\n")
    assert fact.need() == pytest.approx(2e9)
    assert fact.origin is Origin.REPORTED


@pytest.mark.parametrize("text", ["", "cpu MHz : fast", "\x00"])
def test_without_a_stated_clock_the_frequency_is_unknown(text):
    assert isinstance(parse_cpuinfo_mhz(text), Unknown)
    assert isinstance(read(FakeSystem()).cpu.frequency_hz, Unknown)


def test_scaling_max_freq_is_the_frequency_limit():
    system = machine({"policy0": ("powersave", "1700000", "5100000")})
    system.files[f"{POLICIES}/policy0/scaling_max_freq"] = "1700000\n"
    assert read(system).cpu.frequency_limit_hz.need() == pytest.approx(1.7e9)

from cases import cpu_case, with_facts

from unslow.facts.snapshot import Case
from unslow.think.case.bandwidth import allowed_of, limits_of, quota_of


def test_the_limits_of_the_runtimes_own_process_come_first():
    case = with_facts(cpu_case(), {"machine.cpu.quota_cpus": 8.0, "machine.cpu.allowed_cpus": 16})
    assert limits_of(case) == {"machine.cpu.quota_cpus": 8.0, "machine.cpu.allowed_cpus": 16.0}
    boxed = with_facts(case, {"runtime.quota_cpus": 1.5, "runtime.allowed_cpus": 4})
    assert limits_of(boxed) == {"runtime.quota_cpus": 1.5, "runtime.allowed_cpus": 4.0}
    assert quota_of(boxed)[1] == "runtime.quota_cpus"
    assert allowed_of(case)[1] == "machine.cpu.allowed_cpus"


def test_nothing_is_known_of_an_empty_case():
    assert limits_of(Case()) == {}

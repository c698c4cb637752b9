from cases import cpu_case, with_facts

from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView


def test_limits_of_the_runtime_process_win_over_the_machine():
    case = with_facts(cpu_case(), {"machine.cpu.quota_cpus": 8.0, "machine.cpu.allowed_cpus": 16})
    assert CaseView(case).host.cpu_limits == {"machine.cpu.quota_cpus": 8.0, "machine.cpu.allowed_cpus": 16.0}
    boxed = with_facts(case, {"runtime.process.quota_cpus": 1.5, "runtime.process.allowed_cpus": 4})
    assert CaseView(boxed).host.cpu_limits == {"runtime.process.quota_cpus": 1.5, "runtime.process.allowed_cpus": 4.0}
    assert CaseView(boxed).host.quota[1] == "runtime.process.quota_cpus"
    assert CaseView(case).host.allowed_cpus[1] == "machine.cpu.allowed_cpus"


def test_empty_case_has_no_limits():
    assert CaseView(Case()).host.cpu_limits == {}

from answers import ask
from cases import cpu_case, r, with_facts, without
from firing import contended, crowded
from under_load import saying

from unslow.facts.machine import BusyProcess
from unslow.facts.run import Completion
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "cpu_contended"
fires = contended


def test_busy_other_process_is_named_and_priced(wording):
    busiest = [BusyProcess(pid=99, name="cc1plus", cpus=1.0)]
    report = judge(CaseView(with_facts(contended(), {"run.busiest_others": r(busiest)})))
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells="cc1plus (pid 99, 1.0)")
    assert 1.5 < report.expected.achievable["decode_tokens_per_s"].mid < 4
    assert report.budget[0].part == "waiting for a CPU"


def test_waiting_for_its_own_threads_is_ruled_out():
    case = with_facts(crowded(), {"run.waiting_for_cpu_s_per_token": 1.0})
    assert isinstance(ask(NAME, case), Absent)
    assert judge(CaseView(case)).findings[0].cause == "threads_exceed_cores"


def test_others_without_waiting_threads_are_ruled_out():
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"run.others_cpus": 1.0})), Absent)


def test_few_other_cpus_beside_oversubscribed_threads_are_ruled_out():
    case = with_facts(crowded(), {"run.waiting_for_cpu_s_per_token": 1.0, "run.others_cpus": 0.3})
    assert isinstance(ask(NAME, case), Absent)


def listed(cpus: float, slow: str = "decode"):
    busiest = [BusyProcess(pid=99, name="ffmpeg", cpus=cpus), BusyProcess(pid=10, name="llama-server", cpus=1.0)]
    case = with_facts(without(cpu_case(), "run.others_cpus"), {"machine.load.busiest": r(busiest)})
    return saying(slow=slow, case=case)


def test_process_list_with_a_complaint_is_found(wording):
    answer = ask(NAME, listed(1.9))
    assert isinstance(answer, Found)
    wording(answer.because, tells="ffmpeg (pid 99, 1.9)")


def test_process_list_below_half_of_the_cores_is_suspected_or_ruled_out():
    answer = ask(NAME, listed(0.5))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert isinstance(ask(NAME, listed(0.1)), Absent)
    assert isinstance(ask(NAME, listed(1.9, slow="load")), CannotTell)


def test_throttling_quota_explains_the_waiting():
    boxed = {"runtime.process.quota_cpus": 1.0, "runtime.process.allowed_cpus": 2, "run.cpu_throttled_fraction": 0.8}
    slow = {"run.decode_tokens_per_s": 0.2, "run.waiting_for_cpu_s_per_token": 3.0}
    report = judge(CaseView(with_facts(contended(), boxed | slow)))
    assert report.findings[0].cause == "threads_exceed_cpu_quota"
    assert NAME in report.findings[0].explains or NAME not in [f.cause for f in report.findings]


def test_throttling_quota_with_enough_free_cores_is_ruled_out():
    boxed = {"machine.cpu.physical_cores": 8, "machine.cpu.logical_cpus": 8, "runtime.process.quota_cpus": 1.0}
    stopped = with_facts(contended(), boxed | {"run.cpu_throttled_fraction": 0.7})
    assert isinstance(ask(NAME, stopped), Absent)


def behind_a_proxy(*busiest: BusyProcess):
    used = {"run.others_cpus": sum(p.cpus for p in busiest), "run.busiest_others": r(list(busiest))}
    return with_facts(without(contended(), "runtime.process.pid"), used)


def test_server_process_behind_a_proxy_is_not_another_process(wording):
    server = BusyProcess(pid=10, name="llama-server", cpus=1.8)
    assert isinstance(ask(NAME, behind_a_proxy(server)), Absent)
    beside = ask(NAME, behind_a_proxy(server, BusyProcess(pid=99, name="cc1plus", cpus=1.0)))
    assert isinstance(beside, Found)
    assert "cc1plus (pid 99, 1.0)" in beside.because
    assert "llama-server" not in beside.because
    nameless = ask(NAME, behind_a_proxy(BusyProcess(pid=10, name="python3", cpus=1.8)))
    assert isinstance(nameless, CannotTell)
    assert nameless.missing == "runtime.process.pid"

    unnamed = ask(NAME, without(behind_a_proxy(server), "run.busiest_others"))
    assert isinstance(unnamed, CannotTell)
    wording(unnamed.why)


def answered(client_total_s: float, first_token_s: float = 1.1) -> Completion:
    return Completion(
        prompt_tokens=100, generated_tokens=16, prefill_s=1.0, decode_s=9.0, client_first_token_s=first_token_s,
        client_total_s=client_total_s,
    )  # fmt: skip


def explained(*runs: Completion) -> bool:
    answer = ask(NAME, with_facts(contended(), {"run.completions": r(runs)}))
    return "client_overhead" in answer.explains


def test_client_loss_beyond_the_waiting_is_not_explained():
    assert explained(answered(10.5))
    assert not explained(answered(30.0))


def test_constant_client_loss_is_not_explained():
    assert explained(answered(11.0, 1.5), answered(12.0, 3.0))
    assert not explained(answered(12.01, 3.01), answered(12.0, 3.0))


def stolen(cpus: float):
    """A virtual machine with two CPUs: the kernel counts stolen time apart from waiting."""
    busiest = [BusyProcess(pid=0, name="steal: other virtual machines on this host", cpus=cpus)]
    facts = {"run.others_cpus": cpus, "run.busiest_others": r(busiest), "run.waiting_for_cpu_s_per_token": 0.001}
    return with_facts(cpu_case(), facts | {"run.decode_tokens_per_s": 0.8})


def test_stolen_time_is_found_with_dedicated_cpus_as_fix(wording):
    finding = judge(CaseView(stolen(0.9))).findings[0]
    assert finding.cause == NAME
    wording(finding.because, finding.fixes[0].why, tells="0.9 of 2")
    assert finding.fixes[0].knob == "capacity"
    assert isinstance(ask(NAME, stolen(0.05)), Absent)


def test_unnamed_processes_may_be_in_other_containers(wording):
    boxed = with_facts(contended(), {"machine.system.container": "kubernetes"})
    wording(ask(NAME, boxed).because, ask(NAME, contended()).because)


def test_process_with_a_full_share_is_found_beside_oversubscribed_threads():
    busiest = [BusyProcess(pid=99, name="ffmpeg", cpus=0.5)]
    facts = {"runtime.compute.threads": 3, "run.others_cpus": 0.55, "run.busiest_others": r(busiest)}
    waits = {"run.waiting_for_cpu_s_per_token": 1.0, "run.decode_tokens_per_s": 0.5}
    assert isinstance(ask(NAME, with_facts(crowded(), facts | waits)), Found)
    little = [BusyProcess(pid=99, name="ffmpeg", cpus=0.2), BusyProcess(pid=98, name="sshd", cpus=0.2)]
    assert isinstance(ask(NAME, with_facts(crowded(), facts | waits | {"run.busiest_others": r(little)})), Absent)


def test_child_processes_of_the_server_are_not_others():
    busiest = [BusyProcess(pid=98, name="VLLM::EngineCor", cpus=1.9, parents=(10, 1))]
    case = with_facts(
        without(cpu_case(), "run.others_cpus"), {"machine.load.busiest": r(busiest), "runtime.process.pid": 10}
    )
    assert not getattr(ask(NAME, case), "suspected", False)


def test_unknown_server_process_in_the_list_is_not_suspected():
    busiest = [BusyProcess(pid=98, name="python", cpus=1.9)]
    case = with_facts(without(cpu_case(), "run.others_cpus"), {"machine.load.busiest": r(busiest)})
    answer = ask(NAME, without(case, "runtime.process.pid"))
    assert not getattr(answer, "suspected", False)


def test_process_with_low_priority_is_not_reniced(wording):
    def fix(*nice: int):
        busiest = [BusyProcess(pid=90 + n, name="x", cpus=0.9, nice=n) for n in nice]
        return judge(CaseView(with_facts(contended(), {"run.busiest_others": r(busiest)}))).findings[0].fixes[0]

    assert fix(0).value == 90
    assert fix(10, 0).value == 90
    assert fix(10, 19).value is None
    wording(fix(10, 19).why)

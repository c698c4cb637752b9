from answers import ask
from cases import cpu_case, r, with_facts, without
from firing import contended, crowded
from under_load import saying

from unslow.facts.machine import BusyProcess
from unslow.facts.run import Completion
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "cpu_contended"
fires = contended


def test_a_busy_neighbour_is_named_and_priced():
    busiest = [BusyProcess(pid=99, name="cc1plus", cpus=1.0)]
    report = judge(with_facts(contended(), {"run.busiest_others": r(busiest)}))
    assert report.findings[0].cause == NAME
    assert "cc1plus (pid 99, 1.0)" in report.findings[0].because
    assert 1.5 < report.expected.achievable["decode_tokens_per_s"].mid < 4
    assert report.budget[0].part == "waiting for a CPU"


def test_near_miss_waiting_for_its_own_threads_is_no_neighbour():
    case = with_facts(crowded(), {"run.waiting_for_cpu_s_per_token": 1.0})
    assert isinstance(ask(NAME, case), Absent)
    assert judge(case).findings[0].cause == "threads_exceed_cores"


def test_near_miss_others_that_leave_it_its_cores_do_no_harm():
    assert isinstance(ask(NAME, with_facts(cpu_case(), {"run.others_cpus": 1.0})), Absent)


def test_a_little_of_others_beside_a_crowd_of_its_own_threads():
    case = with_facts(crowded(), {"run.waiting_for_cpu_s_per_token": 1.0, "run.others_cpus": 0.3})
    assert isinstance(ask(NAME, case), Absent)


def listed(cpus: float, slow: str = "decode"):
    busiest = [BusyProcess(pid=99, name="ffmpeg", cpus=cpus), BusyProcess(pid=10, name="llama-server", cpus=1.0)]
    case = with_facts(without(cpu_case(), "run.others_cpus"), {"machine.load.busiest": r(busiest)})
    return saying(slow=slow, case=case)


def test_a_list_of_busy_processes_and_a_complaint():
    answer = ask(NAME, listed(1.9))
    assert isinstance(answer, Found)
    assert "ffmpeg (pid 99, 1.9)" in answer.because


def test_a_neighbour_that_uses_less_is_a_suspicion_and_one_that_uses_nothing_is_none():
    answer = ask(NAME, listed(0.5))
    assert isinstance(answer, CannotTell)
    assert answer.suspected
    assert isinstance(ask(NAME, listed(0.1)), Absent)
    assert isinstance(ask(NAME, listed(1.9, slow="load")), CannotTell)


def test_a_quota_that_stops_the_threads_is_the_root_of_their_waiting():
    boxed = {"runtime.quota_cpus": 1.0, "runtime.allowed_cpus": 2, "run.cpu_throttled_fraction": 0.8}
    slow = {"run.decode_tokens_per_s": 0.2, "run.waiting_for_cpu_s_per_token": 3.0}
    report = judge(with_facts(contended(), boxed | slow))
    assert report.findings[0].cause == "threads_exceed_cpu_quota"
    assert NAME in report.findings[0].explains or NAME not in [f.cause for f in report.findings]


def test_near_miss_a_quota_that_stops_it_while_others_leave_it_room():
    boxed = {"machine.cpu.physical_cores": 8, "machine.cpu.logical_cpus": 8, "runtime.quota_cpus": 1.0}
    stopped = with_facts(contended(), boxed | {"run.cpu_throttled_fraction": 0.7})
    assert isinstance(ask(NAME, stopped), Absent)


def behind_a_proxy(*busiest: BusyProcess):
    used = {"run.others_cpus": sum(p.cpus for p in busiest), "run.busiest_others": r(list(busiest))}
    return with_facts(without(contended(), "runtime.pid"), used)


def test_near_miss_the_server_itself_behind_a_proxy(wording):
    server = BusyProcess(pid=10, name="llama-server", cpus=1.8)
    assert isinstance(ask(NAME, behind_a_proxy(server)), Absent)
    beside = ask(NAME, behind_a_proxy(server, BusyProcess(pid=99, name="cc1plus", cpus=1.0)))
    assert isinstance(beside, Found)
    assert "cc1plus (pid 99, 1.0)" in beside.because
    assert "llama-server" not in beside.because
    nameless = ask(NAME, behind_a_proxy(BusyProcess(pid=10, name="python3", cpus=1.8)))
    assert isinstance(nameless, CannotTell)
    assert nameless.missing == "runtime.pid"

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


def test_a_client_that_loses_more_than_the_server_loses_it_elsewhere():
    assert explained(answered(10.5))
    assert not explained(answered(30.0))


def test_what_is_the_same_in_every_request_is_no_waiting_for_a_cpu():
    assert explained(answered(11.0, 1.5), answered(12.0, 3.0))
    assert not explained(answered(12.01, 3.01), answered(12.0, 3.0))


def stolen(cpus: float):
    """A virtual machine of two CPUs: the kernel counts what others got apart from waiting."""
    busiest = [BusyProcess(pid=0, name="steal: other virtual machines on this host", cpus=cpus)]
    facts = {"run.others_cpus": cpus, "run.busiest_others": r(busiest), "run.waiting_for_cpu_s_per_token": 0.001}
    return with_facts(cpu_case(), facts | {"run.decode_tokens_per_s": 0.8})


def test_time_that_the_hypervisor_gives_to_others_is_waited_for_too(wording):
    finding = judge(stolen(0.9)).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="0.9 of 2")
    assert finding.fixes[0].knob == "capacity"
    assert "dedicated" in finding.fixes[0].why
    assert isinstance(ask(NAME, stolen(0.05)), Absent)


def test_other_containers_can_not_be_named(wording):
    boxed = with_facts(contended(), {"machine.system.container": "kubernetes"})
    wording(ask(NAME, boxed).because)
    assert "ended before" in ask(NAME, contended()).because


def test_a_neighbour_that_gets_its_share_beside_one_thread_too_many():
    busiest = [BusyProcess(pid=99, name="ffmpeg", cpus=0.5)]
    facts = {"runtime.threads": 3, "run.others_cpus": 0.55, "run.busiest_others": r(busiest)}
    waits = {"run.waiting_for_cpu_s_per_token": 1.0, "run.decode_tokens_per_s": 0.5}
    assert isinstance(ask(NAME, with_facts(crowded(), facts | waits)), Found)
    little = [BusyProcess(pid=99, name="ffmpeg", cpus=0.2), BusyProcess(pid=98, name="sshd", cpus=0.2)]
    assert isinstance(ask(NAME, with_facts(crowded(), facts | waits | {"run.busiest_others": r(little)})), Absent)


def test_what_the_server_started_is_the_server():
    """vLLM's engine is a process of its own."""
    busiest = [BusyProcess(pid=98, name="VLLM::EngineCor", cpus=1.9, parents=(10, 1))]
    case = with_facts(without(cpu_case(), "run.others_cpus"), {"machine.load.busiest": r(busiest), "runtime.pid": 10})
    assert not getattr(ask(NAME, case), "suspected", False)


def test_a_server_whose_process_is_not_known_is_no_neighbour():
    busiest = [BusyProcess(pid=98, name="python", cpus=1.9)]
    case = with_facts(without(cpu_case(), "run.others_cpus"), {"machine.load.busiest": r(busiest)})
    answer = ask(NAME, without(case, "runtime.pid"))
    assert not getattr(answer, "suspected", False)


def test_a_program_that_lets_others_go_first_already_is_not_reniced():
    def fix(*nice: int):
        busiest = [BusyProcess(pid=90 + n, name="x", cpus=0.9, nice=n) for n in nice]
        return judge(with_facts(contended(), {"run.busiest_others": r(busiest)})).findings[0].fixes[0]

    assert fix(0).value == 90
    assert fix(10, 0).value == 90
    assert fix(10, 19).value is None
    assert "priority" not in fix(10, 19).why

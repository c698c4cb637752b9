import pytest
from doubles import FakeSystem

from unslow.look.bench.timing import run_delay
from unslow.look.kernel.processors import (
    STEAL_NAME,
    CpuSample,
    ProcessTime,
    cpus_between,
    parse_busy_ticks,
    parse_process_time,
    parse_running_on,
    read_cpu_sample,
    read_own_pid,
    read_run_delay,
)
from unslow.look.system import LookError

STAT = "cpu  18353 1 3967 162649 3381 2 68 2012 5 0\ncpu0 6348 0 1350 86269 160 0 22 1041 0 0\nintr 235615 0\n"
CAT = "6547 (cat) R 6543 6543 4800 0 -1 4194304 99 0 0 0 12 3 0 0 20 0 1 0 94995 3133440 414 18446744073709551615"


def sample(seconds, busy, steal=0, **processes):
    named = {int(pid[1:]): ProcessTime(*rest) for pid, rest in processes.items()}
    return CpuSample(seconds, busy, steal, named)


def test_busy_ticks_exclude_idle_and_iowait():
    assert parse_busy_ticks(STAT) == (18353 + 1 + 3967 + 2 + 68, 2012)


@pytest.mark.parametrize("text", ["", "cpu", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3\n", "\x00"])
def test_proc_stat_without_a_total_cpu_line_is_a_look_error(text):
    with pytest.raises(LookError):
        parse_busy_ticks(text)


def test_process_name_and_cpu_time_are_parsed_from_stat():
    assert parse_process_time(CAT) == ProcessTime("cat", 15, 94995, 6543)
    assert parse_process_time(CAT.replace("(cat)", "(a) R 1 (b)")).name == "a) R 1 (b"


@pytest.mark.parametrize("text", ["", "1 (x) R 1 2", "1 (x) " + "y " * 40, ")" * 100])
def test_a_malformed_process_stat_gives_none(text):
    assert parse_process_time(text) is None


def test_vanished_and_unreadable_processes_are_skipped():
    system = FakeSystem(
        files={"/proc/stat": STAT, "/proc/7/stat": CAT, "/proc/8/stat": LookError("/proc/8/stat: permission denied")},
        folders={"/proc": ["7", "8", "9", "self", "meminfo"]},
    )
    assert set(read_cpu_sample(system).processes) == {7}


def test_own_pid_is_read_from_proc_self_stat():
    assert read_own_pid(FakeSystem(files={"/proc/self/stat": CAT})) == 6547
    with pytest.raises(LookError):
        read_own_pid(FakeSystem(files={"/proc/self/stat": "(x)"}))


def test_busiest_processes_are_sorted_and_exclude_our_own():
    before = sample(10.0, 1000, p1=("init", 50, 1), p2=("ffmpeg", 100, 20), p3=("unslow", 10, 30))
    after = sample(12.0, 1500, p1=("init", 70, 1), p2=("ffmpeg", 300, 20), p3=("unslow", 210, 30))
    use = cpus_between(before, after, {3})
    assert use.busy_cpus == pytest.approx(1.5)
    assert use.excluded_cpus == pytest.approx(1.0)
    assert [(p.name, p.cpus) for p in use.busiest] == [("ffmpeg", 1.0), ("init", 0.1)]


def test_steal_time_counts_as_a_busy_process():
    use = cpus_between(sample(0.0, 0, 0), sample(1.0, 20, 150))
    assert use.busy_cpus == pytest.approx(1.7)
    assert [(p.pid, p.name, p.cpus) for p in use.busiest] == [(0, STEAL_NAME, 1.5)]


def test_new_processes_count_and_previously_hidden_ones_do_not():
    before = sample(0.0, 0, p1=("init", 0, 1), p5=("old", 900, 50))
    after = sample(1.0, 100, p5=("new", 40, 60), p6=("make", 60, 70), p7=("was hidden", 9000, 20))
    assert [(p.name, p.cpus) for p in cpus_between(before, after).busiest] == [("make", 0.6), ("new", 0.4)]


def test_only_the_five_busiest_processes_are_named():
    processes = {f"p{i}": (f"n{i}", i, 1) for i in range(1, 10)}
    idle = {pid: (name, 0, started) for pid, (name, _, started) in processes.items()}
    use = cpus_between(sample(0.0, 0, **idle), sample(1.0, 45, **processes))
    assert [p.name for p in use.busiest] == ["n9", "n8", "n7", "n6", "n5"]


def test_backward_counters_and_zero_elapsed_time_give_zero_cpus():
    before, after = sample(1.0, 100, 10, p1=("a", 50, 1)), sample(1.0, 0, 0, p1=("a", 0, 1))
    assert cpus_between(before, after) == (0.0, 0.0, [])


def test_run_delay_is_summed_over_threads():
    system = FakeSystem(
        files={"/proc/5/task/5/schedstat": "100 2000000000 3\n", "/proc/5/task/6/schedstat": "1 500000000 9\n"},
        folders={"/proc/5/task": ["5", "6", "7"]},
    )
    assert read_run_delay(system, 5) == pytest.approx(2.5)


def test_run_delay_of_a_server_counts_the_processes_that_it_started():
    started = sample(1.0, 0, p5=("vllm", 1, 1), p6=("VLLM::EngineCore", 1, 1, 5), p7=("VLLM::Worker", 1, 1, 6))
    waits = {5: "1", 6: "2", 7: "4", 8: "8"}  # in seconds; the last is somebody else's
    system = FakeSystem(
        files={f"/proc/{pid}/task/{pid}/schedstat": f"1 {wait}000000000 1\n" for pid, wait in waits.items()},
        folders={f"/proc/{pid}/task": [str(pid)] for pid in waits},
    )
    assert (run_delay(system, 5), run_delay(system, 5, started), run_delay(system, None, started)) == (1.0, 7.0, None)


def test_a_missing_or_malformed_schedstat_is_a_look_error():
    with pytest.raises(LookError):
        read_run_delay(FakeSystem(), 5)
    for files in ({}, {"/proc/5/task/5/schedstat": "12"}, {"/proc/5/task/5/schedstat": "12 x 3"}):
        with pytest.raises(LookError):
            read_run_delay(FakeSystem(files=files, folders={"/proc/5/task": ["5"]}), 5)


def test_descendants_of_the_server_count_as_its_own():
    before = sample(0.0, 0, p10=("vllm", 0, 1, 1), p11=("VLLM::EngineCore", 0, 2, 10), p12=("worker", 0, 3, 11))
    after = sample(1.0, 250, p10=("vllm", 50, 1, 1), p11=("VLLM::EngineCore", 100, 2, 10), p12=("worker", 40, 3, 11),
                   p20=("make", 60, 0, 1))  # fmt: skip
    use = cpus_between(before, after, [10])
    assert use.excluded_cpus == 1.9
    assert [process.pid for process in use.busiest] == []
    assert use.busy_cpus == pytest.approx(0.6)


def test_a_cycle_of_parent_pids_terminates():
    ring = sample(1.0, 100, p10=("a", 50, 1, 11), p11=("b", 50, 1, 10))
    assert cpus_between(ring, ring, [10]).busiest == []


RUNNING = (
    "32152 (cat) R 32074 32074 23968 0 -1 4194304 102 0 0 0 0 0 0 0 20 0 1 0 5785348 3133440 414 18446744073709551615 "
    "94148565348352 94148565368233 140721520468432 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0 94148565384240 94148565385856\n"
)


def test_the_cpu_of_a_running_thread_is_parsed():
    assert parse_running_on(RUNNING) == 5
    assert parse_running_on(RUNNING.replace(") R ", ") S ")) is None
    assert parse_running_on("1 (x) R 1 2") is None

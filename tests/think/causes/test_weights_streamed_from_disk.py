from answers import ask
from cases import cpu_case, with_facts
from seen_live import watched
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.values import GB, GIB, MIB, not_found
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "weights_streamed_from_disk"


def fires():
    return with_facts(cpu_case(), {"model.weights_bytes": 60 * GIB, "run.decode_tokens_per_s": 0.1})


def test_sixty_gib_of_weights_on_twenty_four_of_ram(wording):
    report = judge(fires())
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells=("60 GiB", "24 GiB"))


def test_near_miss_they_fit():
    assert isinstance(ask(NAME, cpu_case()), Absent)


def test_what_gpus_hold_need_not_fit_into_ram():
    case = with_facts(fires(), {"runtime.gpu_layers": 50, "runtime.layers": 65})
    assert isinstance(ask(NAME, case), Absent)


def test_a_mapped_file_that_no_pc_holds():
    mapped = says(Topic.DISK_BUSY, "317 GB of weights mmap'ed")
    case = pasted(mapped, runtime={"gpu_layers": 2, "layers": 62}, model={"name": "deepseek-r1:671b"})
    report = judge(case)
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_a_busy_disk_alone_is_a_suspicion_and_a_slow_load_another_matter():
    busy = says(Topic.DISK_BUSY, "the disk is at 100 %")
    assert isinstance(ask(NAME, pasted(busy)), CannotTell)
    assert isinstance(ask(NAME, pasted(busy, slow_metric="load")), Absent)


def test_a_large_file_in_larger_memory():
    mapped = says(Topic.DISK_BUSY, "380 GB of weights mmap'ed")
    case = with_facts(pasted(mapped), {"machine.memory.total_bytes": int(768 * GB)})
    assert isinstance(ask(NAME, case), CannotTell)


def test_a_disk_that_was_watched_while_tokens_came():
    watched = says(Topic.DISK_BUSY_WHILE_GENERATING, "the SSD reads 2 GB/s while it generates")
    assert isinstance(ask(NAME, pasted(watched)), Found)


def test_a_gpu_of_unknown_size_may_hold_them():
    case = with_facts(pasted(model={"weights_bytes": 60 * GIB}), {"machine.memory.total_bytes": 32 * GIB})
    assert isinstance(ask(NAME, case), CannotTell)


def streaming(read: float, swapped: float = 0.0, faults: float = 4000.0):
    slow = with_facts(cpu_case(), {"run.decode_tokens_per_s": 0.5, "machine.memory.limit_bytes": 3 * GIB})
    seen = {"disk_read_bytes_per_s": read, "swap_in_bytes_per_s": swapped, "own_major_faults_per_s": faults}
    return watched(slow, host=seen)


def test_a_disk_that_is_read_for_every_token(wording):
    finding = judge(streaming(800 * MIB)).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="1600.0 MiB")
    assert finding.cost is not None


def test_near_miss_a_disk_at_rest_once_it_is_loaded():
    assert isinstance(ask(NAME, streaming(0.2 * MIB)), Absent)


def test_what_comes_back_from_swap_is_another_cause():
    assert isinstance(ask(NAME, streaming(800 * MIB, swapped=795 * MIB)), Absent)


def test_a_mapped_model_that_is_only_partly_in_memory_is_not_ruled_out():
    partly = with_facts(cpu_case(), {"runtime.load_mode": "mmap", "runtime.resident_bytes": 2 * GIB})
    assert isinstance(ask(NAME, partly), CannotTell)
    assert isinstance(ask(NAME, with_facts(partly, {"runtime.load_mode": "none"})), Absent)


def test_what_others_read_is_not_the_models_doing():
    assert isinstance(ask(NAME, streaming(800 * MIB, faults=0.0)), Absent)


def test_a_backup_that_reads_beside_a_few_faults_of_its_own():
    """Each would have to fetch more than any fault reads ahead."""
    assert isinstance(ask(NAME, streaming(800 * MIB, faults=0.01)), Absent)


def test_without_its_own_faults_the_reads_are_anybodys():
    unknown = watched(cpu_case(), host={"disk_read_bytes_per_s": 800 * MIB, "major_faults_per_s": 4000.0})
    answer = ask(NAME, unknown)
    assert isinstance(answer, CannotTell)
    assert "page faults" in answer.missing
    assert isinstance(ask(NAME, watched(cpu_case(), host={"disk_read_bytes_per_s": 0.1 * MIB})), Absent)


def test_without_the_weights_their_share_is_not_told():
    read = {"disk_read_bytes_per_s": 800 * MIB, "own_major_faults_per_s": 4000.0}
    case = watched(
        with_facts(cpu_case(), {"model.weights_bytes": not_found("no file"), "account.remarks": ()}), host=read
    )
    assert isinstance(ask(NAME, case), CannotTell)


def test_requests_that_never_ended_were_watched_all_the_same():
    slow = with_facts(cpu_case(), {"run.decode_tokens_per_s": 0.5})
    seen = {"disk_read_bytes_per_s": 800 * MIB, "own_major_faults_per_s": 7.0}
    cut = watched(slow, phase="idle", host=seen | {"swap_in_bytes_per_s": 0.0})
    assert isinstance(ask(NAME, cut), Found)
    assert isinstance(ask(NAME, watched(slow, host=seen)), CannotTell), "it may have come back from swap"
    unswapped = with_facts(watched(slow, host=seen), {"machine.memory.swap_used_bytes": 0})
    assert isinstance(ask(NAME, unswapped), Found)


def test_what_the_control_group_of_the_server_may_use():
    boxed = with_facts(cpu_case(), {"runtime.memory_limit_bytes": 500 * MIB, "run.decode_tokens_per_s": 0.1})
    answer = ask(NAME, boxed)
    assert isinstance(answer, Found)
    assert "runtime.memory_limit_bytes" in {e.fact for e in answer.evidence}


def test_a_limit_is_raised_before_anybody_buys_memory(wording):
    limited = {"runtime.memory_limit_bytes": 2 * GIB, "run.decode_tokens_per_s": 0.1}
    case = with_facts(cpu_case(), limited)
    finding = judge(case).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="2.0 GiB")
    assert [fix.knob for fix in finding.fixes] == ["memory_limit", "quant"]
    small = with_facts(fires(), {"runtime.memory_limit_bytes": 2 * GIB})
    assert [fix.knob for fix in judge(small).findings[0].fixes] == ["quant"]

from answers import ask
from cases import cpu_case, with_facts
from seen_live import watched
from told import pasted, says

from unslow.facts.account import Topic
from unslow.facts.values import GB, GIB, MIB, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "weights_streamed_from_disk"


def fires():
    return with_facts(cpu_case(), {"model.weights_bytes": 60 * GIB, "run.decode_tokens_per_s": 0.1})


def test_60_gib_of_weights_with_24_gib_of_ram_is_found(wording):
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    wording(report.findings[0].because, tells=("60 GiB", "24 GiB"))


def test_weights_that_fit_into_ram_rule_it_out():
    assert isinstance(ask(NAME, cpu_case()), Absent)


def test_weights_on_gpus_do_not_count_against_ram():
    case = with_facts(fires(), {"runtime.placement.gpu_layers": 50, "runtime.placement.layers": 65})
    assert isinstance(ask(NAME, case), Absent)


def test_a_mapped_file_larger_than_any_pc_is_found_and_explains_the_spill():
    mapped = says(Topic.DISK_BUSY, "317 GB of weights mmap'ed")
    case = pasted(mapped, runtime={"gpu_layers": 2, "layers": 62}, model={"name": "deepseek-r1:671b"})
    report = judge(CaseView(case))
    assert report.findings[0].cause == NAME
    assert report.findings[0].explains == ("weights_spill_to_ram",)


def test_a_busy_disk_is_a_suspicion_and_a_complaint_about_the_load_rules_it_out():
    busy = says(Topic.DISK_BUSY, "the disk is at 100 %")
    assert isinstance(ask(NAME, pasted(busy)), CannotTell)
    assert isinstance(ask(NAME, pasted(busy, slow_metric="load")), Absent)


def test_a_mapped_file_smaller_than_ram_gives_cannot_tell():
    mapped = says(Topic.DISK_BUSY, "380 GB of weights mmap'ed")
    case = with_facts(pasted(mapped), {"machine.memory.total_bytes": int(768 * GB)})
    assert isinstance(ask(NAME, case), CannotTell)


def test_a_remark_on_disk_reads_while_generating_decides():
    watched = says(Topic.DISK_BUSY_WHILE_GENERATING, "the SSD reads 2 GB/s while it generates")
    assert isinstance(ask(NAME, pasted(watched)), Found)


def test_a_gpu_of_unknown_size_gives_cannot_tell():
    case = with_facts(pasted(model={"weights_bytes": 60 * GIB}), {"machine.memory.total_bytes": 32 * GIB})
    assert isinstance(ask(NAME, case), CannotTell)


def streaming(read: float, swapped: float = 0.0, faults: float = 4000.0):
    slow = with_facts(cpu_case(), {"run.decode_tokens_per_s": 0.5, "machine.memory.limit_bytes": 3 * GIB})
    seen = {"disk_read_bytes_per_s": read, "swap_in_bytes_per_s": swapped, "own_major_faults_per_s": faults}
    return watched(slow, host=seen)


def test_disk_reads_for_each_token_are_found_with_a_cost(wording):
    finding = judge(CaseView(streaming(800 * MIB))).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="1600.0 MiB")
    assert finding.cost is not None


def test_an_idle_disk_while_generating_rules_it_out():
    assert isinstance(ask(NAME, streaming(0.2 * MIB)), Absent)


def test_swap_ins_are_subtracted_from_disk_reads():
    assert isinstance(ask(NAME, streaming(800 * MIB, swapped=795 * MIB)), Absent)


def test_a_mapped_model_partly_in_memory_gives_cannot_tell():
    partly = with_facts(cpu_case(), {"runtime.placement.load_mode": "mmap", "runtime.process.resident_bytes": 2 * GIB})
    assert isinstance(ask(NAME, partly), CannotTell)
    assert isinstance(ask(NAME, with_facts(partly, {"runtime.placement.load_mode": "none"})), Absent)


def test_reads_without_own_page_faults_rule_it_out():
    assert isinstance(ask(NAME, streaming(800 * MIB, faults=0.0)), Absent)


def test_reads_beyond_what_own_page_faults_can_fetch_are_not_counted():
    """Each would have to fetch more than any fault reads ahead."""
    assert isinstance(ask(NAME, streaming(800 * MIB, faults=0.01)), Absent)


def test_reads_without_a_count_of_own_page_faults_give_cannot_tell():
    unknown = watched(cpu_case(), host={"disk_read_bytes_per_s": 800 * MIB, "major_faults_per_s": 4000.0})
    answer = ask(NAME, unknown)
    assert isinstance(answer, CannotTell)
    assert "page faults" in answer.missing
    assert isinstance(ask(NAME, watched(cpu_case(), host={"disk_read_bytes_per_s": 0.1 * MIB})), Absent)


def test_reads_of_a_model_of_unknown_size_give_cannot_tell():
    read = {"disk_read_bytes_per_s": 800 * MIB, "own_major_faults_per_s": 4000.0}
    case = watched(
        with_facts(cpu_case(), {"model.weights_bytes": not_found("no file"), "account.remarks": ()}), host=read
    )
    assert isinstance(ask(NAME, case), CannotTell)


def test_reads_during_unfinished_requests_count():
    slow = with_facts(cpu_case(), {"run.decode_tokens_per_s": 0.5})
    seen = {"disk_read_bytes_per_s": 800 * MIB, "own_major_faults_per_s": 7.0}
    cut = watched(slow, phase="idle", host=seen | {"swap_in_bytes_per_s": 0.0})
    assert isinstance(ask(NAME, cut), Found)
    assert isinstance(ask(NAME, watched(slow, host=seen)), CannotTell), "it may have come back from swap"
    unswapped = with_facts(watched(slow, host=seen), {"machine.memory.swap_used_bytes": 0})
    assert isinstance(ask(NAME, unswapped), Found)


def test_the_memory_limit_of_the_runtime_counts_as_ram():
    boxed = with_facts(cpu_case(), {"runtime.process.memory_limit_bytes": 500 * MIB, "run.decode_tokens_per_s": 0.1})
    answer = ask(NAME, boxed)
    assert isinstance(answer, Found)
    assert "runtime.process.memory_limit_bytes" in {e.fact for e in answer.evidence}


def test_a_higher_memory_limit_is_the_first_fix_where_the_machine_has_room(wording):
    limited = {"runtime.process.memory_limit_bytes": 2 * GIB, "run.decode_tokens_per_s": 0.1}
    case = with_facts(cpu_case(), limited)
    finding = judge(CaseView(case)).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="2.0 GiB")
    assert [fix.knob for fix in finding.fixes] == ["memory_limit", "quant"]
    small = with_facts(fires(), {"runtime.process.memory_limit_bytes": 2 * GIB})
    assert [fix.knob for fix in judge(CaseView(small)).findings[0].fixes] == ["quant"]

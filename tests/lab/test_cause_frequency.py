"""Counted cause frequencies."""

from lab.cause_frequency import WHERE, counted, written
from lab.check_triage import REPORTS, read_reports

from unslow.think.causes import cause_ids


def test_a_report_class_of_several_causes_is_shared_between_them():
    reports = [{"cause_class": "gpu_backend_unavailable"}] * 3 + [{"cause_class": "normal_for_hardware"}]
    seen = counted(reports, ["gpu_backend_not_loaded", "gpu_architecture_unsupported", "swapping"])
    assert seen == {"gpu_backend_not_loaded": 1.5, "gpu_architecture_unsupported": 1.5, "swapping": 0.0}


def test_the_frequency_file_matches_the_reports():
    reports = [report for path in sorted(REPORTS.glob("*.jsonl")) for report in read_reports(path)]
    assert WHERE.read_text("utf-8") == written(reports, cause_ids()), "run `python -m lab.cause_frequency`"

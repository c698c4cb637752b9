"""Whether loading waits for the disk."""

import pytest

from unslow.think.stats.load_times import Start, judge_load

GB = 1e9


@pytest.mark.parametrize(
    ("cold_s", "warm_s", "verdict"),
    [
        (20.0, (4.0, 4.2), "disk_bound"),
        (8.0, (4.0, 4.0), "disk_bound"),
        (7.0, (4.0, 4.2), "not_disk"),
        (4.3, (4.0, 4.1), "same"),
        (0.5, (0.4, 0.4), "same"),
        (5.0, (4.0, 5.1), "same"),  # warm starts differ by as much
        (3.0, (4.0, 4.0), "same"),
    ],
)
def test_cold_and_warm_starts_give_the_verdict(cold_s, warm_s, verdict):
    judged = judge_load(Start(cold_s), [Start(s) for s in warm_s], 5 * GB, 0.5 * GB)
    assert judged.verdict == verdict


def test_disk_at_its_bandwidth_is_reported(wording):
    judged = judge_load(Start(14.0, 5 * GB), [Start(4.0)], 5 * GB, 0.5 * GB)
    wording(judged.because, tells=("5 GB", "0.5 GB/s"))
    assert "small pieces" not in judged.because


def test_disk_below_its_bandwidth_is_reported(wording):
    judged = judge_load(Start(14.0), [Start(4.0)], 5 * GB, 3 * GB)
    wording(judged.because)


def test_slow_first_request_is_reported(wording):
    judged = judge_load(Start(4.0, 0.0, 2.0, 0.5), [Start(4.0)], 0, None)
    wording(judged.because, tells=("2 s", "0.5 s"))
    assert "request" not in judge_load(Start(4.0, 0.0, 0.55, 0.5), [Start(4.0)], 0, None).because


def test_cpu_waiting_gives_cannot_tell():
    calm, disturbed = Start(4.0, waited_s=0.1), Start(9.0, waited_s=5.0)
    assert judge_load(disturbed, [calm], 5 * GB, 0.5 * GB).verdict == "cannot_tell"
    assert judge_load(disturbed._replace(waited_s=0.5), [calm], 5 * GB, 0.5 * GB).verdict == "disk_bound"


def test_missing_cold_or_warm_start_gives_cannot_tell():
    assert judge_load(None, [Start(1.0)], 1, 1).verdict == "cannot_tell"
    assert judge_load(Start(1.0), [], 1, 1).verdict == "cannot_tell"

from math import isnan
from types import SimpleNamespace

import pytest

from unslow.look.sampler.sources.nvml import OthersBusy

OURS, THEIRS = 4242, 4300


class Answer(Exception):  # noqa: N818 (what pynvml raises, with its number)
    def __init__(self, value: int) -> None:
        super().__init__(f"number {value}")
        self.value = value


class Counting:
    """A driver that hands out what it sampled after a moment, as nvml.h says."""

    def __init__(self) -> None:
        self.rows: list[SimpleNamespace] = []
        self.error = 6

    def work(self, when_us: int, **percents: int) -> None:
        pids = {"ours": OURS, "theirs": THEIRS}
        self.rows += [SimpleNamespace(pid=pids[who], timeStamp=when_us, smUtil=p) for who, p in percents.items()]

    def nvmlDeviceGetProcessUtilization(self, gpu: object, since_us: int) -> list[SimpleNamespace]:  # noqa: N802
        new = [row for row in self.rows if row.timeStamp > since_us]
        if not new:
            raise Answer(self.error)
        return new


def share(reading: OthersBusy) -> float:
    return reading.read(0.0)[0]


def test_gpu_share_of_other_processes_is_sampled():
    nvml = Counting()
    reading = OthersBusy(nvml, "gpu", [OURS])
    nvml.work(1_000, ours=50, theirs=99)
    assert isnan(share(reading))
    nvml.work(2_000, ours=55, theirs=40)
    nvml.work(3_000, ours=45, theirs=44)
    assert share(reading) == pytest.approx(0.42)
    nvml.work(4_000, ours=97)
    assert share(reading) == 0.0


def test_without_new_driver_samples_there_is_no_share():
    nvml = Counting()
    reading = OthersBusy(nvml, "gpu", [OURS])
    assert isnan(share(reading))
    nvml.work(1_000, ours=50)
    assert isnan(share(reading))
    assert isnan(share(reading))
    nvml.error = 0
    assert isnan(share(reading))


def test_foreign_pid_namespaces_give_no_share():
    nvml = Counting()
    reading = OthersBusy(nvml, "gpu", [7])
    for when in range(1, 5):
        nvml.work(when, ours=99)
        assert isnan(share(reading))


def test_out_of_range_process_utilization_is_skipped():
    nvml = Counting()
    reading = OthersBusy(nvml, "gpu", [OURS])
    nvml.work(1, ours=50)
    share(reading)
    nvml.work(2, ours=50, theirs=4_000_000_000)
    assert share(reading) == 0.0


def test_a_driver_without_process_utilization_is_an_error():
    nvml = Counting()
    nvml.error = 3
    with pytest.raises(Answer):
        share(OthersBusy(nvml, "gpu", [OURS]))

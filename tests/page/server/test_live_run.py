"""A run that is watched from another thread: real requests to a server that replays a recorded one."""

import time

import pytest
from lab.replay import serve
from tests.bench_cases import answered, bench, failed

from unslow.commands._formats import Looking
from unslow.commands.bench import BenchRequest
from unslow.commands.diagnose import look
from unslow.commands.diagnose.request import Limits
from unslow.facts.errors import UserError
from unslow.page.server.live_run import LiveRun, bench_words
from unslow.page.server.runs import PassLine, ProgressLine, RunLine
from unslow.page.server.state import ServeOptions

BRIEF = Limits(8.0, 0.3, 0.5)
LONG_S = 30.0


@pytest.fixture(autouse=True)
def _own_history(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSLOW_DATA_DIR", str(tmp_path))


def started(request: Looking | BenchRequest) -> tuple[LiveRun, list[RunLine]]:
    """A run, and the lines that it tells."""
    told: list[RunLine] = []
    run = LiveRun(request, ServeOptions(Looking()), told.append)
    run.start()
    return run, told


def test_diagnosis_run_reports_progress_and_ends_with_a_view(monkeypatch):
    monkeypatch.setattr(look, "limits_of", lambda _: BRIEF)
    with serve("llama_cpp", tokens_per_s=200.0) as url:
        run, told = started(Looking(target=url))
        assert run.wait(LONG_S)
    assert (run.failure, run.was_stopped) == (None, False)
    steps = [line for line in told if isinstance(line, ProgressLine)]
    assert {line.share is None for line in steps} == {True, False}
    answers = [line for line in told if isinstance(line, PassLine)]
    assert any(150 < (answer.tokens_per_s or 0) < 250 for answer in answers)
    assert run.new_timeline() is not None
    assert run.new_timeline() is None
    assert run.text
    assert run.seen is not None
    (subject,) = run.seen.view.subjects
    assert subject.timeline is not None
    assert {span.phase for span in subject.timeline.spans} >= {"decode"}


def test_stopped_benchmark_keeps_its_results():
    with serve("llama_cpp", tokens_per_s=60.0) as url:
        run, told = started(BenchRequest(target=url, quick=True, tokens=64))
        end = time.monotonic() + LONG_S
        while time.monotonic() < end and not any(isinstance(line, PassLine) for line in told):
            time.sleep(0.02)
        run.stop()
        assert run.wait(5.0)
    assert (run.failure, run.was_stopped) == (None, True)
    assert run.bench is not None
    assert run.bench.interrupted
    assert run.bench.passes
    assert not run.bench.failures


@pytest.mark.real
def test_concurrent_requests_are_stopped_midway():
    with serve("llama_cpp", tokens_per_s=20.0) as url:
        asked = BenchRequest(target=url, sweep=("users=4",), evict=True)
        run, _ = started(asked)
        time.sleep(6.0)
        run.stop()
        assert run.wait(5.0)
    assert (run.failure, run.was_stopped) == (None, True)
    assert run.bench is not None
    assert run.bench.failures == ()


def test_unknown_target_fails_with_a_user_error():
    run, _ = started(BenchRequest(target="nothing-that-runs"))
    assert run.wait(LONG_S)
    assert isinstance(run.failure, UserError)
    assert "nothing-that-runs" in run.failure.message
    assert run.failure.hint


def test_bench_summary_counts_failed_requests(wording):
    assert "failed" not in bench_words(bench())
    some = bench_words(bench(passes=(answered(),), failures=(failed(), failed(2))))
    wording(some, tells=("2 of 3", "300 s"))
    none = bench_words(bench(figures={}, passes=(), failures=(failed(),)))
    wording(none, tells=("1 of 1", "300 s"))

"""The lines of a run: bounded, numbered, only the newest panel."""

import threading

import pytest

from unslow.page.server.runs import (
    MOST_KEPT,
    MOST_LINES,
    BusyError,
    DoneLine,
    ErrorLine,
    NotThereError,
    PanelLine,
    ProgressLine,
    RunList,
    RunWanted,
    StartedRun,
)

WANTED = RunWanted(kind="bench", subject=0)


def finished(entry):
    entry.tell(DoneLine(text="over"))


def test_run_lines_are_numbered_and_bounded():
    entry = StartedRun(WANTED)
    for number in range(MOST_LINES + 50):
        entry.tell(ProgressLine(text=f"remark {number}"))
    lines = entry.lines()
    assert len(lines) == MOST_LINES
    assert lines[-1].number == MOST_LINES + 50
    assert [line.number for line in entry.lines(since=MOST_LINES + 48)] == [MOST_LINES + 49, MOST_LINES + 50]


def test_new_panel_line_replaces_the_previous_one():
    entry = StartedRun(WANTED)
    for html in ("first", "second"):
        entry.tell(PanelLine(subject=0, name="timeline", html=html))
        entry.tell(PanelLine(subject=1, name="timeline", html=html))
    assert [(line.subject, line.html) for line in entry.lines()] == [(0, "second"), (1, "second")]


def test_newest_progress_line_and_every_remark_are_kept():
    entry = StartedRun(WANTED)
    for number in range(3):
        entry.tell(ProgressLine(text=f"remark {number}"))
        entry.tell(ProgressLine(text=f"step {number}", share=0.5))
    assert [line.text for line in entry.lines()] == ["remark 0", "remark 1", "remark 2", "step 2"]


def test_last_line_decides_the_run_state():
    entry = StartedRun(WANTED)
    entry.tell(ProgressLine(text="measuring", share=0.25))
    assert (entry.status().state, entry.status().text, entry.status().share) == ("running", "measuring", 0.25)
    entry.tell(DoneLine(text="enough", stopped=True))
    assert (entry.status().state, entry.status().share) == ("stopped", 1.0)
    failed = StartedRun(WANTED)
    failed.tell(ErrorLine(message="no"))
    assert (failed.status().state, failed.status().text) == ("failed", "no")


def test_only_one_run_at_a_time_and_the_last_runs_are_kept():
    book, go_on = RunList(), threading.Event()

    def follow(entry):
        go_on.wait(10)
        finished(entry)

    first = book.start(WANTED, follow)
    with pytest.raises(BusyError):
        book.start(WANTED, finished)
    go_on.set()
    first.thread.join(10)
    for _ in range(MOST_KEPT):
        book.start(WANTED, finished).thread.join(10)
    assert len(book.entries()) == MOST_KEPT
    with pytest.raises(NotThereError):
        book.entry(first.id)


def test_closing_stops_the_current_run():
    book, stopped = RunList(), threading.Event()

    def follow(entry):
        entry.stop_run = stopped.set
        stopped.wait(10)
        entry.tell(DoneLine(text="closed", stopped=True))

    entry = book.start(WANTED, follow)
    while entry.stop_run is None:
        pass
    book.close()
    assert entry.status().state == "stopped"

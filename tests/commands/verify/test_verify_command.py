"""The whole command over real HTTP, against servers that replay a runtime at a given pace."""

import pytest
from doubles import Quiet
from lab.replay import serve

from unslow import __version__
from unslow.commands.bench.server import Place
from unslow.commands.diagnose.runtimes import subjects_at_url
from unslow.commands.diagnose.target import with_subjects
from unslow.commands.verify import VerifyRequest, comparison
from unslow.commands.verify import rounds as command_alone
from unslow.commands.verify.comparison import verify
from unslow.commands.verify.server import FEWEST_QUESTIONS
from unslow.facts.errors import UserError
from unslow.facts.machine import Memory
from unslow.facts.snapshot import Snapshot
from unslow.facts.values import measured_fact
from unslow.facts.verification import Side
from unslow.look.system.live import LiveSystem
from unslow.show.verify import render_side, render_verify
from unslow.think.stats.verification import verify_status
from unslow.think.stats.verification_report import VerifyReport


@pytest.fixture(autouse=True)
def _only_the_server_is_looked_at(monkeypatch):
    """The machine is not what these tests are about, and looking at it takes a second each time."""

    def place_of(target: str, key: str, _progress: object) -> Place:
        system, seen = LiveSystem(), Snapshot(unslow_version=__version__, taken_at="")
        return Place(system, with_subjects(seen, subjects_at_url(system, target, key)))

    monkeypatch.setattr(comparison, "place_of", place_of)
    monkeypatch.setattr(
        command_alone, "read_ram_bandwidth", lambda _system: Memory(read_bytes_per_s=measured_fact(1e10, "told"))
    )


def request(**others: object) -> VerifyRequest:
    return VerifyRequest(**{"prompt": 20, "answer": 8, "seconds": 1.0, "evict": True, "model": "qwen3", **others})


def test_two_running_servers_are_compared_in_turns():
    with serve("ollama", tokens_per_s=80.0) as before, serve("ollama", tokens_per_s=4000.0) as after:
        report = verify(request(before=before, after=after, no_answers=True), Quiet())
    assert isinstance(report, VerifyReport)
    assert report.way == "in_turns"
    assert report.figures[1].verdict == "faster"  # by the server's own clock, which no busy machine disturbs
    assert report.figures[0].speedup.mid > 2
    assert verify_status(report) == (0 if report.verdict == "faster" else 3)
    assert report.figures[1].before.mid == pytest.approx(70.0, rel=0.05)  # 7 steps in the time of 8
    assert report.answers.verdict == "cannot_tell"
    shown = render_verify(report, "terminal", width=100, color=False)
    assert shown.startswith((" FASTER ", " CANNOT TELL "))
    assert "Total request" in shown
    assert "| Decode |" in render_verify(report, "markdown", width=100, color=False)
    assert '"schema": "unslow.verify/1"' in render_verify(report, "json", width=100, color=False)


def test_saved_side_is_compared_later(tmp_path, wording):
    path = str(tmp_path / "before.json")
    with serve("ollama", tokens_per_s=4000.0) as url:
        saved = verify(request(after=url, save=path), Quiet())
    assert isinstance(saved, Side)
    assert FEWEST_QUESTIONS <= len(saved.answers) == len(saved.again)
    wording(saved.not_scored)
    shown = render_side(saved, "terminal", path, width=400, color=False)
    assert f"unslow verify --against {path}" in shown
    with serve("ollama", tokens_per_s=80.0) as url:
        report = verify(request(after=url, against=path, no_answers=True), Quiet())
        assert isinstance(report, VerifyReport)
        assert (report.way, report.figures[1].verdict) == ("apart", "slower")
        assert saved.host_bytes_per_s[0] == 1e10
        assert any("drift is not ruled out" in note for note in report.notes)
        with pytest.raises(UserError, match="another request"):
            verify(request(after=url, against=path, prompt=77), Quiet())


def test_interrupt_gives_a_partial_report(monkeypatch):
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "in_turns", interrupted)
    with serve("ollama", tokens_per_s=2000.0) as before, serve("ollama", tokens_per_s=2000.0) as after:
        report = verify(request(before=before, after=after), Quiet())
    assert isinstance(report, VerifyReport)
    assert report.interrupted
    assert report.verdict == "cannot_tell"


def test_server_and_command_cannot_be_mixed(monkeypatch, wording):
    monkeypatch.setattr(
        comparison, "place_of", lambda *_: Place(LiveSystem(), Snapshot(unslow_version="1", taken_at=""))
    )
    with pytest.raises(UserError) as caught:
        verify(request(before="http://127.0.0.1:1", after="llama-server -m x.gguf"), Quiet())
    wording(str(caught.value))


def test_missing_against_file_is_a_user_error():
    with pytest.raises(UserError, match="No such file"):
        verify(request(after="http://127.0.0.1:1", against="no_such_file.json"), Quiet())

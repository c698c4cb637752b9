"""Servers that are started for every round, and one that does not restart; each replays answers."""

import sys
from pathlib import Path

import pytest
from doubles import Quiet

from unslow.commands.bench.server import Place
from unslow.commands.verify import VerifyRequest, comparison, server
from unslow.commands.verify.comparison import verify
from unslow.commands.verify.server import MeasuredServer
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot
from unslow.look.system.live import LiveSystem
from unslow.think.stats.verification import verify_status
from unslow.think.stats.verification_report import VerifyReport

HERE = Place(LiveSystem(), Snapshot(unslow_version="0", taken_at=""))
SERVER = f"""#!{sys.executable}
import sys, pathlib, time
sys.path[:0] = [{str(Path(__file__).parents[3])!r}]
words, counter = sys.argv, pathlib.Path(sys.argv[0] + ".starts")
count = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(count))
if "--threads" in words and count > int(words[words.index("--threads") + 1]):
    if "--mlock" in words:
        time.sleep(60)
    print("0.00.001.000 E alloc: out of memory")
    sys.exit(1)
from lab.replay.behaviour import Behaviour
from lab.replay.server import started
started("llama_cpp", None, Behaviour(tokens_per_s=4000.0), int(words[words.index("--port") + 1])).serve_forever()
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "place_of", lambda *_: HERE)

    def made(name: str) -> str:
        path = tmp_path / name / "llama-server"
        path.parent.mkdir()
        path.write_text(SERVER)
        path.chmod(0o755)
        return f"{path} -m m.gguf"

    return made


def test_server_that_does_not_restart_keeps_what_was_measured(program):
    lines = {"before": program("a"), "after": f"{program('b')} --threads 2"}  # so often it starts
    report = verify(VerifyRequest(**lines, prompt=20, answer=16, seconds=60.0, no_answers=True), Quiet())
    assert isinstance(report, VerifyReport)
    assert (report.verdict, verify_status(report)) == ("broken", 1)
    assert report.figures[0].rounds == 2
    assert len(report.before.starts_s) in (2, 3)
    assert len(report.after.starts_s) == 2
    assert report.after.failed_starts == ("the server ended before it answered: alloc: out of memory",) * 2
    assert report.took_s is not None
    assert report.took_s >= sum((*report.before.starts_s, *report.after.starts_s)) > 0


def test_later_starts_have_a_shorter_limit_than_the_first(program, monkeypatch):
    monkeypatch.setattr(server, "_PATIENT_S", 0.2)
    one = MeasuredServer(f"{program('a')} --threads 1 --mlock", HERE)
    with one.open_bencher(Quiet()):
        pass
    assert len(one.starts_s) == 1
    one.starts_s = [0.1]
    with pytest.raises(UserError, match="did not answer within"), one.open_bencher(Quiet()):
        pass

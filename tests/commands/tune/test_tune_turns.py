"""Servers that are really started and stopped; each replays answers at its own pace."""

import sys
import time
from pathlib import Path

import pytest
from doubles import Quiet

from unslow.commands.bench.server import Place
from unslow.commands.tune import search
from unslow.commands.tune.search import TOO_SLOW, Line, Trial, Tuning, limits_of
from unslow.facts.snapshot import Snapshot
from unslow.facts.verification import Work
from unslow.look.system.live import LiveSystem
from unslow.think.stats.tuning import TuneContext, judge_tuning
from unslow.think.stats.tuning_candidates import Candidate, Candidates

WORK = Work(prompt_tokens=20, answer_tokens=16)
PLACE = Place(LiveSystem(), Snapshot(unslow_version="0", taken_at=""))
SERVER = f"""#!{sys.executable}
import sys
sys.path[:0] = [{str(Path(__file__).parents[3])!r}]
words = sys.argv
if "--no-mmap" in words:
    print("0.00.001.000 E alloc: cudaMalloc failed: out of memory")
    sys.exit(1)
from lab.replay.behaviour import Behaviour
from lab.replay.server import started
pace = 40.0 * (int(words[words.index("-t") + 1]) if "-t" in words else 2)
started("llama_cpp", None, Behaviour(tokens_per_s=pace), int(words[words.index("--port") + 1])).serve_forever()
"""


@pytest.fixture
def program(tmp_path) -> str:
    path = tmp_path / "llama-server"
    path.write_text(SERVER)
    path.chmod(0o755)
    return str(path)


def tuning(program: str, *flags: str, seconds: float = 60.0) -> Tuning:
    """One candidate for each set of flags, the first being the default."""
    every = tuple(Candidate(flag or "default", "neighbour", ()) for flag in flags)
    lines = [Line((program, "-m", "m.gguf", *flag.split())) for flag in flags]
    return Tuning(WORK, Candidates(every, None), lines, PLACE, seconds)


class Impatient(Quiet):
    """Presses Ctrl-C at a turn."""

    def __init__(self, turn: int) -> None:
        super().__init__()
        self.turn = turn

    def step(self, text: str, share: float) -> None:
        self.say(text)
        if len(self.said) == self.turn:
            raise KeyboardInterrupt


def running(word: str) -> list[str]:
    """The processes that have this word on their command line."""
    lines = {path: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()}
    return [str(path) for path, line in lines.items() if word.encode() in line]


def test_fastest_candidate_wins_and_out_of_memory_is_dropped(program):
    found = tuning(program, "", "-t 8", "--no-mmap")
    assert found.run(Impatient(4))  # after the first round
    assert found.halving.leader == 1
    assert "out of memory" in found.halving.dropped[2].why
    told = TuneContext("0", "m", "", program, WORK, 2048)
    report = judge_tuning(Candidates(tuple(found._candidates.all), None), found.results(), found.halving, told)
    assert report.winner == 1
    assert report.command == f"{program} -m m.gguf -t 8"
    assert report.trials[1].over_default
    assert report.trials[1].over_default.mid > 1.5
    assert report.trials[1].start_s
    assert {sample.round for sample in report.trials[1].samples} >= {1}
    assert running(program) == []


def test_candidate_without_a_command_is_not_started(program, wording):
    lines = [Line((program, "-m", "m.gguf")), Line((program, "-m", "m.gguf"), "numa: it has no --numa")]
    every = (Candidate("a", "default", ()), Candidate("b", "option", ()))
    found = Tuning(WORK, Candidates(every, None), lines, PLACE, 60.0)
    wording(found.halving.dropped[1].why, tells="--numa")
    assert found.halving.alive == [0]


def test_interrupt_gives_the_best_so_far(program, wording):
    found, progress = tuning(program, "", "-t 8"), Impatient(2)
    assert found.run(progress)
    assert (found.halving.leader, found.halving.end) == (0, "stopped")
    assert found.halving.dropped[1].why == "not measured: stopped"
    wording(progress.said[0], tells="60 s")
    assert running(program) == []


def test_request_much_slower_than_the_best_is_abandoned(program, wording):
    trial = Trial(Line((program, "-m", "m.gguf", "-t", "1")), PLACE)
    limits = limits_of(60.0, 60.0, 0.1, is_new=True)._replace(request_s=0.2)
    wording(trial.turn(1, WORK, [], limits, Quiet()), tells="0 s")
    assert trial.requests_s(1) == []


def test_only_new_candidates_have_short_limits():
    assert limits_of(300.0, 200.0, 5.0, is_new=True) == (200.0, TOO_SLOW * 5.0)
    assert limits_of(300.0, 200.0, 0.1, is_new=True).request_s == 10.0
    assert limits_of(300.0, 12.0, 5.0, is_new=True) == (12.0, 12.0)
    assert limits_of(300.0, 200.0, 5.0, is_new=False) == limits_of(300.0, 200.0, None, is_new=True) == (300.0, 300.0)
    assert limits_of(5.0, 5.0, 5.0, is_new=False).start_s == 60.0


def test_server_that_does_not_get_ready_is_abandoned_at_the_time_limit(tmp_path, program, monkeypatch):
    monkeypatch.setattr(search, "_LEAST_LIMIT_S", 0.3)
    hanging = tmp_path / "hang" / "llama-server"
    hanging.parent.mkdir()
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    found = tuning(program, "-t 8", "-t 7")
    found._trials[1] = Trial(Line((str(hanging), "-m", "m.gguf")), PLACE)
    found.halving.budget_s, found.halving.spent_s = 60.0, 1.0
    found._turn(0, 1, Quiet())
    found.halving.spent_s = 59.5
    before = time.monotonic()
    found._turn(1, 1, Quiet())
    assert time.monotonic() - before < 30  # it would be waited for a minute
    assert "did not answer within" in found.halving.dropped[1].why

"""Two servers asked in turns, with a simulated clock."""

from doubles import Quiet
from simulated_server import SimulatedServer

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.measurement import ROUNDS, _ask_in_turns
from unslow.commands.bench.protocol import QUICK
from unslow.facts.snapshot import Subject
from unslow.look.requests import Target


def bencher_of(port: int, system: SimulatedServer) -> Bencher:
    return Bencher(system, Subject(), Target(f"http://127.0.0.1:{port}"), Quiet())


def test_first_server_alternates_every_round():
    system = SimulatedServer()
    both = [bencher_of(1, system), bencher_of(2, system)]
    assert _ask_in_turns(both, QUICK, Quiet()) == ""
    firsts = [
        min(both, key=lambda one: next(d.started_s + one.began_s for d in one.passes if d.round == number))
        for number in range(1, ROUNDS + 1)
    ]
    assert [one.target.url[-1] for one in firsts] == ["1", "2"] * (ROUNDS // 2)
    assert [sum(1 for d in one.passes if d.round) for one in both] == [2 * ROUNDS] * 2


def test_dead_server_is_not_asked_again(wording):
    good, gone = bencher_of(1, SimulatedServer()), bencher_of(2, SimulatedServer(is_up=lambda now: now < 1))
    wording(_ask_in_turns([good, gone], QUICK, Quiet()), tells="http://127.0.0.1:2")
    assert len(gone.failures) == 3
    assert good.passes

import json

from doubles import FakeSystem

from unslow.facts.values import Known, Unknown
from unslow.look.bench.guest import Plan, Target
from unslow.look.bench.observe import Decoding
from unslow.look.bench.trials._work import Work
from unslow.look.bench.trials.host import generates, perform
from unslow.look.system import Answer
from unslow.look.system.live import LiveSystem

URL = "http://127.0.0.1:8080"


def at_work(tokens: int) -> Work:
    return Work("/slots", 1, 0, decoding={0: Decoding(7, tokens)})


def test_work_at_both_ends_is_work():
    assert generates(at_work(5), at_work(50))
    assert not generates(at_work(0), at_work(50))
    assert not generates(None, at_work(50))
    assert not generates(Work("/slots", 0, 0), at_work(50))
    assert generates(Work("/metrics", 1, 0, tokens=5), Work("/metrics", 1, 0, tokens=9))
    assert not generates(Work("/metrics", 1, 0, tokens=5), Work("/metrics", 1, 0, tokens=5))
    assert generates(Work("/metrics", 1, 0, tokens_per_s=5), Work("/metrics", 1, 0, tokens_per_s=5))


def test_another_machine_is_not_this_one():
    run = perform(LiveSystem(), Target("http://192.0.2.1:8080"), Plan(), lambda *_: None)
    assert isinstance(run.others_cpus, Unknown)
    assert "another machine" in run.telemetry.why


def test_this_machine_is_watched_and_nothing_is_sent():
    run = perform(LiveSystem(), Target("http://127.0.0.1:9"), Plan(watch_s=0.3), lambda *_: None)
    assert isinstance(run.others_cpus, Known)
    assert "while it was watched" in run.others_cpus.source
    assert run.telemetry.need().samples >= 1
    assert isinstance(run.gpus, Unknown)
    assert isinstance(run.own_cpus, Unknown)


def test_a_server_at_work_and_no_gpu():
    slots = [{"id": 0, "is_processing": True, "id_task": 7, "next_token": {"n_decoded": 9}}]
    door = FakeSystem(http={f"GET {URL}/slots": Answer(200, json.dumps(slots).encode())})
    run = perform(door, Target(URL), Plan(), lambda *_: None)
    assert "driver" in run.gpus.why
    assert all(sent.startswith("GET") for sent, _ in door.sent)

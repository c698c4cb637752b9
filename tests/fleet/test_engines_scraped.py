"""Engines of label sets, and the names that they get."""

from unslow.fleet.engines import Target, engines_of
from unslow.fleet.labels import plain, quick_key
from unslow.fleet.queries import Labels


def engines(*all_labels, samples=()):
    targets = {}
    for place, labels in enumerate(all_labels):
        target = Target("vLLM", labels)
        target.samples = samples[place] if samples else 30.0
        targets[quick_key(labels)] = target
    return engines_of(targets, Labels())


def test_the_replica_that_saw_most_speaks_first():
    one, other = ({"instance": "a:1", "prometheus_replica": name} for name in ("p0", "p1"))
    (engine,), places = engines(one, other, samples=(10.0, 30.0))
    assert engine.labels["prometheus_replica"] == "p1"
    assert places[quick_key(other)] == (engine, 0)
    assert places[quick_key(one)] == (engine, 1)
    assert (engine.replicas, engine.samples) == (2, 30.0)


def test_a_label_that_only_one_way_of_scraping_adds_makes_no_second_engine():
    pod = {"namespace": "n", "pod": "p", "instance": "10.0.0.1:8000"}
    (engine,), _ = engines({**pod, "job": "pods", "app": "chat"}, {**pod, "job": "services", "service": "chat"})
    assert (engine.key, engine.twice) == ("n/p", 2)


def test_two_ports_of_a_pod_are_two_engines():
    pod = {"namespace": "n", "pod": "p", "job": "j"}
    found, _ = engines({**pod, "instance": "10.0.0.1:8000"}, {**pod, "instance": "10.0.0.1:8001"})
    assert [engine.key for engine in found] == ["n/p (10.0.0.1:8000)", "n/p (10.0.0.1:8001)"]


def test_environments_tell_addresses_apart():
    found, _ = engines({"instance": "localhost:8000", "env": "a"}, {"instance": "localhost:8000", "env": "b"})
    assert [engine.key for engine in found] == ["localhost:8000 (a)", "localhost:8000 (b)"]


def test_a_target_without_labels_still_has_a_name():
    (engine,), _ = engines({})
    assert engine.key == "unknown"


def test_long_labels_that_only_end_otherwise_stay_two():
    found, _ = engines(*({"instance": "x" * 10_000 + end, "job": "a"} for end in "ab"))
    assert len({one.key for one in found}) == len({plain("x" * 10_000 + end) for end in "ab"}) == 2
    assert len(plain("x" * 10_000)) < 320

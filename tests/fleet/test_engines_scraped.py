"""Engines of label sets, and the names that they get."""

from unslow.fleet.engines import Target, engines_of
from unslow.fleet.labels import plain_label, quick_key
from unslow.fleet.queries import Labels


def engines(*all_labels, samples=()):
    targets = {}
    for place, labels in enumerate(all_labels):
        target = Target("vLLM", labels)
        target.samples = samples[place] if samples else 30.0
        targets[quick_key(labels)] = target
    return engines_of(targets, Labels())


def test_replica_with_most_samples_is_used_first():
    one, other = ({"instance": "a:1", "prometheus_replica": name} for name in ("p0", "p1"))
    (engine,), places = engines(one, other, samples=(10.0, 30.0))
    assert engine.labels["prometheus_replica"] == "p1"
    assert places[quick_key(other)] == (engine, 0)
    assert places[quick_key(one)] == (engine, 1)
    assert (engine.replicas, engine.samples) == (2, 30.0)


def test_scrape_label_on_one_job_gives_no_second_engine():
    pod = {"namespace": "n", "pod": "p", "instance": "10.0.0.1:8000"}
    (engine,), _ = engines({**pod, "job": "pods", "app": "chat"}, {**pod, "job": "services", "service": "chat"})
    assert (engine.key, engine.twice) == ("n/p", 2)


def test_two_ports_of_a_pod_are_two_engines():
    pod = {"namespace": "n", "pod": "p", "job": "j"}
    found, _ = engines({**pod, "instance": "10.0.0.1:8000"}, {**pod, "instance": "10.0.0.1:8001"})
    assert [engine.key for engine in found] == ["n/p (10.0.0.1:8000)", "n/p (10.0.0.1:8001)"]


def test_environment_label_distinguishes_same_addresses():
    found, _ = engines({"instance": "localhost:8000", "env": "a"}, {"instance": "localhost:8000", "env": "b"})
    assert [engine.key for engine in found] == ["localhost:8000 (a)", "localhost:8000 (b)"]


def test_target_without_labels_has_a_key():
    (engine,), _ = engines({})
    assert engine.key == "unknown"


def test_long_labels_with_different_endings_stay_distinct():
    found, _ = engines(*({"instance": "x" * 10_000 + end, "job": "a"} for end in "ab"))
    assert len({one.key for one in found}) == len({plain_label("x" * 10_000 + end) for end in "ab"}) == 2
    assert len(plain_label("x" * 10_000)) < 320

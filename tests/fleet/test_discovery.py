"""Engines of label sets, and the names that they get."""

import pytest

from unslow.fleet.engines import Target, engines_of
from unslow.fleet.labels import plain, port_of, quick_key, short, without_port
from unslow.fleet.pods import version_of, workload
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


def test_the_same_values_under_other_names_are_other_labels():
    assert quick_key({"namespace": "a", "pod": "b"}) != quick_key({"node": "a", "pod": "b"})


@pytest.mark.parametrize(
    ("instance", "host", "port"),
    [
        ("gpu-01:8000", "gpu-01", "8000"),
        ("[::1]:8000", "::1", "8000"),
        ("fe80::1", "fe80::1", ""),
        ("http://gpu-01:8000/metrics", "gpu-01", "8000"),
        ("gpu-01", "gpu-01", ""),
        ("", "", ""),
    ],
)
def test_hosts_and_ports(instance, host, port):
    assert (without_port(instance), port_of(instance)) == (host, port)


def test_short_names_are_of_names_only():
    assert short("gpu-01.example.com") == "gpu-01"
    assert short("10.0.0.1") == ""
    assert short("gpu-01") == ""


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.10.1", "0.10.1"),
        ("registry:5000/vllm:0.9.2.post1@sha256:abc", "0.9.2.post1"),
        ("vllm/vllm-openai:latest", ""),
        ("vllm/vllm-openai", ""),
        ("envoy:v1.30.0", ""),
    ],
)
def test_the_tag_of_the_runtimes_image_is_its_version(image, version):
    assert version_of({"main": image, "proxy": "envoy:v1.29.0"}, "vLLM") == version


def test_an_image_of_ones_own_counts_where_the_container_is_known():
    images = {"server": "registry/chat:1.4.2", "proxy": "envoy:v1.29.0"}
    assert version_of(images, "vLLM", "server") == "1.4.2"
    assert version_of(images, "vLLM") == ""
    assert version_of({"a": "vllm:v0.9.0", "b": "vllm:v0.10.0"}, "vLLM") == ""


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        ("chat-7d9f8b6c5d-x2x7k", "chat"),
        ("chat-0", "chat"),
        ("llama-8b-7d9f8b6c5d-x2x7k", "llama-8b"),
        ("chat", "chat"),
    ],
)
def test_what_makes_a_pod(pod, name):
    assert workload(pod) == name


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("https://user:hunter2hunter2@gpu-01:8000", "https://masked@gpu-01:8000"),
        ("password=hunter2hunter2", "password=masked"),
        ("a\x1b[31m\nb\u202e", "a?[31m?b?"),
        *((name, name) for name in ("NVIDIA L4", "meta-llama/Llama-3.1-8B", "disk-01:8000", "keyhole/vllm-0", "a b")),
    ],
)
def test_a_label_shows_neither_passwords_nor_what_a_terminal_obeys(written, shown):
    assert plain(written) == shown


def test_long_labels_that_only_end_otherwise_stay_two():
    found, _ = engines(*({"instance": "x" * 10_000 + end, "job": "a"} for end in "ab"))
    assert len({one.key for one in found}) == len({plain("x" * 10_000 + end) for end in "ab"}) == 2
    assert len(plain("x" * 10_000)) < 320

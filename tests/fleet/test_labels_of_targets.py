"""What labels name, and how they are shown."""

import pytest

from unslow.fleet.labels import plain, port_of, quick_key, short, without_port


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

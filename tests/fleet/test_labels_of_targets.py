"""What labels name, and how they are shown."""

import pytest

from unslow.fleet.labels import host_and_port, plain_label, quick_key, short_name


def test_quick_key_includes_label_names():
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
def test_host_and_port_are_split(instance, host, port):
    assert host_and_port(instance) == (host, port)


def test_short_names_exclude_ip_addresses():
    assert short_name("gpu-01.example.com") == "gpu-01"
    assert short_name("10.0.0.1") == ""
    assert short_name("gpu-01") == ""


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("https://user:hunter2hunter2@gpu-01:8000", "https://masked@gpu-01:8000"),
        ("password=hunter2hunter2", "password=masked"),
        ("a\x1b[31m\nb\u202e", "a?[31m?b?"),
        *((name, name) for name in ("NVIDIA L4", "meta-llama/Llama-3.1-8B", "disk-01:8000", "keyhole/vllm-0", "a b")),
    ],
)
def test_shown_label_masks_secrets_and_control_characters(written, shown):
    assert plain_label(written) == shown

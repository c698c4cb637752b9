import pytest

from unslow.look.system.http import host_of, is_local_url, is_port, reachable_host


@pytest.mark.parametrize(
    ("host", "seen"),
    [
        ("", "127.0.0.1"),
        ("0.0.0.0", "127.0.0.1"),
        ("::", "127.0.0.1"),
        ("[::]", "127.0.0.1"),
        ("::1", "[::1]"),
        ("[fe80::1]", "[fe80::1]"),
        ("10.0.0.0", "10.0.0.0"),
        ("box", "box"),
    ],
)
def test_a_wildcard_address_is_reached_on_loopback(host, seen):
    assert reachable_host(host) == seen


@pytest.mark.parametrize("text", ["1", "8080", "65535"])
def test_ports_from_1_to_65535_are_valid(text):
    assert is_port(text)


@pytest.mark.parametrize("text", ["", "http", "65536", "99999", "-1", "８０", "9" * 5000])
def test_other_texts_are_not_ports(text):
    assert not is_port(text)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost", "http://[::1]:8080/v1"])
def test_loopback_urls_are_local(url):
    assert is_local_url(url)


@pytest.mark.parametrize("url", ["http://10.0.0.1", "http://[::1", "http://[a:b:c]:80", "", "no address"])
def test_remote_and_invalid_urls_are_not_local(url):
    assert not is_local_url(url)


def test_an_invalid_url_has_no_host():
    assert host_of("http://[::1") == ""
    assert host_of("http://Box:80/x") == "box"

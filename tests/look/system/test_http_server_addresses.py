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
def test_who_listens_everywhere_is_asked_here(host, seen):
    assert reachable_host(host) == seen


@pytest.mark.parametrize("text", ["1", "8080", "65535"])
def test_a_port(text):
    assert is_port(text)


@pytest.mark.parametrize("text", ["", "http", "65536", "99999", "-1", "８０", "9" * 5000])
def test_no_port(text):
    assert not is_port(text)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://localhost", "http://[::1]:8080/v1"])
def test_here(url):
    assert is_local_url(url)


@pytest.mark.parametrize("url", ["http://10.0.0.1", "http://[::1", "http://[a:b:c]:80", "", "no address"])
def test_elsewhere_or_no_url(url):
    assert not is_local_url(url)


def test_the_host_of_what_is_no_url_is_empty():
    assert host_of("http://[::1") == ""
    assert host_of("http://Box:80/x") == "box"

"""Files on web servers with and without ranges, and on servers that lie, stall or redirect."""

import ipaddress
import random
import socket
import time
from contextlib import closing

import pytest
from web_server import Handler, web_server, with_ranges, without_ranges

from unslow.facts.values import Absence
from unslow.look.system import LookError
from unslow.look.system.web_file import (
    FIRST_RANGE_BYTES,
    MOST_FETCHED_BYTES,
    Route,
    WebFile,
    is_inside,
    redirect_target,
)

DATA = random.Random(1).randbytes(5 * 1024**2)
PATH = "/m.gguf"


def fetched(url: str, *, timeout_s: float = 5.0, step: int = 100_000, end: int = len(DATA)) -> bytes:
    """The file up to `end`, in steps."""
    with closing(WebFile(url, timeout_s)) as file:
        data = bytearray()
        while len(data) < end and (more := file.read(len(data), 1, min(step, end - len(data)))):
            data += more
    return bytes(data)


@pytest.mark.parametrize("behaviour", [with_ranges, without_ranges])
def test_a_whole_file_is_fetched_with_and_without_ranges(behaviour):
    with web_server({PATH: DATA}, behaviour) as server:
        assert fetched(server.url + PATH) == DATA


def test_ranges_grow_and_stop_at_the_requested_end():
    with web_server({PATH: DATA}) as server:
        assert fetched(server.url + PATH, end=1_500_000) == DATA[:1_500_000]
    mib = FIRST_RANGE_BYTES
    assert server.asked == [f"{PATH} bytes=0-{mib - 1}", f"{PATH} bytes={mib}-{3 * mib - 1}"]


def test_the_size_is_known_from_the_first_answer():
    for behaviour in (with_ranges, without_ranges):
        with web_server({PATH: DATA}, behaviour) as server, closing(WebFile(server.url + PATH, 5)) as file:
            assert file.size is None
            file.read(0, 4, 4)
            assert file.size == len(DATA)


def test_skipped_bytes_are_not_fetched():
    with web_server({PATH: DATA}) as server, closing(WebFile(server.url + PATH, 5)) as file:
        assert file.read(10, 5, 5) == DATA[10:15]
        assert file.read(100, 5, 5) == DATA[100:105]
        assert file.read(4_000_000, 5, 5) == DATA[4_000_000:4_000_005]
        assert file.read(len(DATA), 1, 5) == b""
    assert len(server.asked) == 2


def test_without_ranges_skipped_bytes_are_read_and_discarded():
    with web_server({PATH: DATA}, without_ranges) as server, closing(WebFile(server.url + PATH, 5)) as file:
        assert file.read(0, 5, 5) == DATA[:5]
        assert file.read(4_000_000, 5, 5) == DATA[4_000_000:4_000_005]
    assert len(server.asked) == 1


def hang_up_after_a_mebibyte(handler: Handler, data: bytes) -> None:
    handler.answer(200, data[: 1024**2], content_length=str(len(data)))
    handler.close_connection = True


def endless(handler: Handler, data: bytes) -> None:
    handler.answer(200, b"", content_length=str(10**15))
    while True:
        handler.wfile.write(data)


def chunks_without_end(handler: Handler, data: bytes) -> None:
    handler.answer(200, b"", transfer_encoding="chunked")
    while True:
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def status(number: int, **headers: str):
    return lambda handler, _: handler.answer(number, b"", **headers)


def ranged(content_range: str, **headers: str):
    return lambda handler, data: handler.answer(206, data[:FIRST_RANGE_BYTES], content_range=content_range, **headers)


def another_size_each_time(handler: Handler, data: bytes) -> None:
    with_ranges(handler, data + bytes(len(handler.server.asked)))


def ranges_only_once(handler: Handler, data: bytes) -> None:
    (with_ranges if len(handler.server.asked) == 1 else without_ranges)(handler, data)


LIES = {
    "no range in a part": (status(206), "answers ''"),
    "another range": (ranged("bytes 7-9/100"), "answers 'bytes 7-9/100'"),
    "a range that ends before it starts": (ranged("bytes 0-/5"), "answers 'bytes 0-/5'"),
    "more than was asked for": (ranged("bytes 0-99999999/100000000"), "answers"),
    "a range beyond the end": (ranged("bytes 0-99/50"), "50 bytes, which is not possible"),
    "a size of forty digits": (ranged(f"bytes 0-99/{10**40}"), "answers"),
    "another size each time": (another_size_each_time, "which is not possible"),
    "ranges only once": (ranges_only_once, "sends the whole file although a part"),
    "a compressed": (ranged("bytes 0-99/100", content_encoding="gzip"), "compressed"),
    "a whole that breaks off": (hang_up_after_a_mebibyte, "broke off"),
    "a part that breaks off": (ranged(f"bytes 0-{2**20 - 1}/{2**22}", content_length="9"), "broke off"),
    "no end": (endless, "header of more than 64 MiB"),
    "no end in chunks": (chunks_without_end, "header of more than 64 MiB"),
    "a login": (status(401), "never sends one"),
    "nobody": (status(403), "needs a login"),
    "a failure": (status(503), "answers 503"),
    "sent to nowhere": (status(302), "redirects to nowhere"),
    "sent to a file": (status(302, location="file:///etc/passwd"), "not an http:// or https:// URL"),
    "sent to another kind of server": (status(301, location="ftp://example.org/x"), "not an http:// or https:// URL"),
    "sent to itself": (status(302, location=PATH), "redirects more than 5 times"),
    "sent to nonsense": (status(302, location="http://[::1"), "Invalid IPv6 URL"),
    "sent to a port that is none": (status(302, location="http://127.0.0.1:99999/"), "is not a URL"),
    "sent to a host that is none": (status(302, location="http://a..b/"), "is not known"),
}


@pytest.mark.parametrize("what", LIES)
def test_inconsistent_range_answers_are_refused(what):
    behaviour, why = LIES[what]
    with web_server({PATH: DATA}, behaviour) as server, pytest.raises(LookError, match=why):
        fetched(server.url + PATH, timeout_s=20, step=10**6, end=10**9)
    assert server.sent_bytes <= MOST_FETCHED_BYTES * 2


def test_a_404_is_not_found():
    with web_server({}) as server, pytest.raises(LookError, match="404") as caught:
        fetched(server.url + PATH)
    assert caught.value.absence is Absence.NOT_FOUND


def test_redirects_are_resolved_once_for_all_ranges():
    with web_server({PATH: DATA}) as store:
        elsewhere = status(302, location=f"{store.url}{PATH}?signature=1")
        with web_server({PATH: b""}, elsewhere) as hub:
            assert fetched(hub.url + PATH) == DATA
    assert len(hub.asked) == 1
    assert len(store.asked) == 3
    assert store.asked[0].startswith(f"{PATH}?signature=1 bytes=0-")


def drip_the_head(handler: Handler, _: bytes) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 1000:
        handler.wfile.write(bytes([byte]))
        time.sleep(0.02)


def drip_the_body(handler: Handler, data: bytes) -> None:
    handler.answer(206, b"", content_range=f"bytes 0-{2**20 - 1}/{len(data)}", content_length=str(2**20))
    for byte in data[:1000]:
        handler.wfile.write(bytes([byte]))
        time.sleep(0.02)


def drip_the_length_of_a_chunk(handler: Handler, _: bytes) -> None:
    handler.answer(200, b"", transfer_encoding="chunked")
    for _ in range(1000):
        handler.wfile.write(b"0")
        time.sleep(0.02)


def say_nothing(_: Handler, __: bytes) -> None:
    time.sleep(1)


@pytest.mark.parametrize("behaviour", [drip_the_head, drip_the_body, drip_the_length_of_a_chunk, say_nothing])
def test_servers_that_never_finish_time_out(behaviour, wording):
    with web_server({PATH: DATA}, behaviour) as server, pytest.raises(LookError) as left:
        fetched(server.url + PATH, timeout_s=0.2, step=10**6)
    wording(left.value.why.removeprefix(server.url), tells=PATH)


def test_an_endless_tls_handshake_times_out(wording):
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes the call and says nothing
        url = f"https://127.0.0.1:{listener.getsockname()[1]}{PATH}"
        with pytest.raises(LookError) as left:
            fetched(url, timeout_s=0.2)
    wording(left.value.why.removeprefix(url))


def test_a_plain_http_server_is_refused_for_https():
    with web_server({PATH: DATA}) as server, pytest.raises(LookError, match=r"does not use TLS|broke off"):
        fetched(server.url.replace("http:", "https:") + PATH)


@pytest.mark.parametrize(
    "url", ["", "m.gguf", "file:///etc/passwd", "http://", "http://:80/", "http://[::1/", "http://x:y/", "http://\0/"]
)
def test_an_invalid_file_url_is_a_look_error(url):
    with pytest.raises(LookError):
        fetched(url)


def test_a_closed_port_is_a_look_error():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(LookError, match="nothing listens"):
        fetched(f"http://127.0.0.1:{port}{PATH}")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fe80::1", "fd00::1"],
)
def test_a_redirect_from_public_to_private_addresses_is_refused(address, wording):
    assert is_inside([ipaddress.ip_address(address)])
    route = Route("http://93.184.215.14/m.gguf")  # an address, so that nothing is looked up
    route.addresses()
    route.follow(f"http://{f'[{address}]' if ':' in address else address}/latest/meta-data")
    with pytest.raises(LookError) as refused:
        route.addresses()
    wording(refused.value.why, tells=address)


def test_redirects_from_a_private_network_are_followed():
    route = Route("http://127.0.0.1/m.gguf")
    route.addresses()
    for target in ("http://10.0.0.1/", "http://93.184.215.14/", "http://127.0.0.1/"):
        route.follow(target)
        assert route.addresses()


@pytest.mark.parametrize("address", ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "224.0.0.1"])
def test_mapped_and_multicast_addresses_count_as_private(address):
    assert is_inside([ipaddress.ip_address(address)])


def test_one_private_address_among_public_ones_counts_as_private():
    assert is_inside([ipaddress.ip_address("93.184.215.14"), ipaddress.ip_address("127.0.0.1")])
    assert not is_inside([ipaddress.ip_address("93.184.215.14"), ipaddress.ip_address("2606:4700::1111")])


def test_a_redirect_from_https_to_http_is_refused():
    assert redirect_target("http://a.org/x", "https://b.org/y") == "https://b.org/y"
    assert redirect_target("https://a.org/x", "//b.org/y") == "https://b.org/y"
    with pytest.raises(LookError, match="from https:// to http://b"):
        redirect_target("https://a.org/x", "http://b.org/y")

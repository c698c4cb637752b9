"""TLS with generated certificates: trusted, untrusted, demanded from the client, and unusable files."""

import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.fleet.unwell import Unwell

from unslow.facts.errors import UserError
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access

Proxy = Callable[..., Unwell]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate for 127.0.0.1 and one for a client, each its own authority."""
    if not (openssl := shutil.which("openssl")):
        pytest.skip("there is no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("keys")
    for name in ("server", "client"):
        words = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN={name}"
        files = ["-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")]
        address = ["-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([openssl, *words.split(), *files, *address], check=True, capture_output=True)
    return folder


def context(keys: Path, *, asks_back: bool = False) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(keys / "server.pem", keys / "server.key")
    if asks_back:
        made.verify_mode = ssl.CERT_REQUIRED
        made.load_verify_locations(keys / "client.pem")
    return made


def one(url: str, **fields: object) -> Prometheus:
    prometheus = Prometheus(Access(url=url, timeout_s=5.0, restart_s=0.3, **fields))  # type: ignore[arg-type]
    with prometheus:
        assert [series.value for series in prometheus.instant("vector(1)").series] == [1.0]
    return prometheus


def refused(url: str, **fields: object) -> UserError:
    with pytest.raises(UserError) as error:
        one(url, **fields)
    return error.value


def test_ca_file_makes_the_certificate_trusted(proxy: Proxy, keys: Path):
    unwell = proxy(tls=context(keys))
    assert one(unwell.url, ca_file=str(keys / "server.pem")).statements() == ()
    assert unwell.connections == 1


def test_unknown_certificate_is_not_trusted(proxy: Proxy, keys: Path):
    url = proxy(tls=context(keys)).url
    error = refused(url)
    assert "certificate not trusted: self-signed" in error.message.replace("self signed", "self-signed")
    assert "--ca-file" in error.hint
    assert "not trusted" in refused(url, ca_file=str(keys / "client.pem")).message


def test_certificate_for_another_host_is_not_trusted(proxy: Proxy, keys: Path):
    url = proxy(tls=context(keys)).url.replace("127.0.0.1", "localhost")
    assert "not trusted" in refused(url, ca_file=str(keys / "server.pem")).message


def test_insecure_skips_the_check_and_is_noted(proxy: Proxy, keys: Path):
    [statement] = one(proxy(tls=context(keys)).url, check_certificate=False).statements()
    assert statement.kind == "note"
    assert "was not verified" in statement.text


def test_client_certificate_is_sent_and_demanded(proxy: Proxy, keys: Path):
    url, authority = proxy(tls=context(keys, asks_back=True)).url, str(keys / "server.pem")
    pair = {"certificate": str(keys / "client.pem"), "key": str(keys / "client.key")}
    assert one(url, ca_file=authority, **pair).queries_sent == 2
    error = refused(url, ca_file=authority)  # with TLS 1.3 it hangs up after the handshake, with or without a word
    assert "client certificate" in f"{error.message} {error.hint}"
    assert "--cert" in error.hint


def test_http_to_https_server_and_reverse_are_named(proxy: Proxy, keys: Path, real_url: str):
    assert "does not speak TLS" in refused(real_url.replace("http://", "https://")).message
    url = proxy(tls=context(keys)).url.replace("https://", "http://")
    assert refused(url).message.startswith(url)


def test_unusable_certificate_files_are_user_errors(keys: Path):
    url = "https://127.0.0.1:1"
    assert "No such file" in refused(url, ca_file=str(keys / "nothing.pem")).message
    assert "not a usable certificate" in refused(url, ca_file=str(keys / "server.key")).message
    files = {"certificate": str(keys / "server.pem"), "key": str(keys / "client.key")}
    assert "not a usable certificate or key" in refused(url, **files).message

"""Addresses as people give them, and secrets that appear nowhere."""

from pathlib import Path

import pytest

from unslow.commands.fleet import FleetRequest
from unslow.facts.errors import UserError
from unslow.fleet.prometheus.connection import Access, with_environment
from unslow.fleet.settings import asked_access


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://prom:9090", "http://prom:9090"),
        ("prom:9090", "http://prom:9090"),
        ("localhost", "http://localhost"),
        (" http://prom:9090/ ", "http://prom:9090"),
        ("http://prom:9090/graph?g0.expr=up", "http://prom:9090"),
        ("http://prom/api/v1/query", "http://prom"),
        ("https://mimir/prometheus/", "https://mimir/prometheus"),
        ("https://mimir/prometheus/api/v1", "https://mimir/prometheus"),
        ("https://grafana.example/api/prom", "https://grafana.example/api/prom"),
        ("http://prom/a b/ü", "http://prom/a%20b/%C3%BC"),
        ("http://prom/a%20b", "http://prom/a%20b"),
        ("http://[::1]:9090/x#fragment", "http://[::1]:9090/x"),
        ("http://vm/select/0/prometheus?extra_label=a=b", "http://vm/select/0/prometheus?extra_label=a=b"),
    ],
)
def test_api_path_is_removed_from_the_address(given: str, url: str):
    assert Access(url=given).plain().url == url


def test_credentials_are_taken_out_of_the_address():
    access = Access(url="https://joe:p%40ss%2Fword@prom/x?token=hush").plain()
    assert (access.username, access.password) == ("joe", "p@ss/word")
    assert access.url == "https://prom/x?token=hush"
    assert access.shown_url == "https://prom/x"


def test_repr_shows_no_secrets():
    access = Access(url="https://joe:hunter22@prom", headers=(("X-Api-Key", "k-12345"), ("X-Scope-OrgID", "team")))
    for one in (access, access.plain()):
        assert not any(secret in f"{one} {one!r} {one.shown_url}" for secret in ("hunter22", "k-12345"))
    assert "hunter" not in Access(url="http://joe:hunter/22@prom").shown_url
    told = access.plain().mask_secrets("got k-12345 and hunter22 and am9lOmh1bnRlcjIy of team")
    assert told == "got masked and masked and masked of team"


def test_secret_at_the_cut_is_still_masked():
    access = Access(url="http://p?token=hunter2222", bearer="b" * 40)
    for length in range(250, 310):
        assert "bbb" not in access.mask_secrets("x" * length + "b" * 40)
    assert access.mask_secrets("asked /api?token=hunter2222") == "asked /api?token=masked"


def test_password_or_token_is_sent_as_a_header():
    assert Access(url="http://p", username="a", password="b").sent_headers == {"Authorization": "Basic YTpi"}
    assert Access(url="http://p", bearer="abc").sent_headers == {"Authorization": "Bearer abc"}
    given = Access(url="http://p", bearer="abc", headers=(("authorization", "Custom x"),))
    assert given.sent_headers == {"authorization": "Custom x"}


def test_environment_supplies_missing_credentials():
    both = {"UNSLOW_PROMETHEUS_PASSWORD": "pw", "UNSLOW_PROMETHEUS_TOKEN": "tok\n"}
    assert with_environment(Access(url="http://p", username="a"), both).password == "pw"
    assert with_environment(Access(url="http://joe@p"), both).password == "pw"
    assert with_environment(Access(url="http://p", username="a", password="own"), both).password == "own"
    assert with_environment(Access(url="http://p"), both).bearer == "tok"
    assert with_environment(Access(url="http://p", bearer="own"), both).bearer == "own"
    nothing = with_environment(Access(url="http://p"), {})
    assert (nothing.password, nothing.bearer) == ("", "")


def access_asked(environment: dict[str, str] | None = None, **flags: object) -> Access:
    return asked_access(FleetRequest.from_flags(flags), environment or {})


def test_flags_name_secret_files(tmp_path: Path):
    (tmp_path / "secret").write_text("hunter22\n")
    named = str(tmp_path / "secret")
    assert access_asked(prometheus="http://joe@p", password_file=named).password == "hunter22"
    assert access_asked(prometheus="http://p", token_file=named).bearer == "hunter22"
    access = access_asked({"UNSLOW_PROMETHEUS_TOKEN": "t"}, prometheus="http://p", header=["X-Scope-OrgID: team-a"])
    assert (access.headers, access.bearer) == ((("X-Scope-OrgID", "team-a"),), "t")


def test_unreadable_files_and_invalid_headers_are_user_errors(tmp_path: Path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name, why in (("empty", "is empty"), ("bytes", "not text"), ("none", "No such file"), ("", "directory")):
        with pytest.raises(UserError, match=why):
            access_asked(prometheus="http://joe@p", password_file=str(tmp_path / name))
    with pytest.raises(UserError, match="Name: value") as error:
        access_asked(prometheus="http://p", header=["hunter22"])
    assert "hunter22" not in error.value.message


@pytest.mark.parametrize(
    "wrong",
    [
        Access(url="ftp://joe:hunter22@p"),
        Access(url="http://"),
        Access(url="http://[::"),
        Access(url="http://p:99999"),
        Access(url="http://p", bearer="hunter22\r\nX-Evil: 1"),
        Access(url="http://p", headers=(("X-A\n", "hunter22"),)),
        Access(url="http://p", headers=(("X-A", "hunter22\n"),)),
        Access(url="http://p", headers=(("Host", "hunter22"),)),
        Access(url="http://p", username="a", bearer="hunter22"),
        Access(url="http://p", key="k.pem"),
        Access(url="http://p", timeout_s=0),
        Access(url="http://p", timeout_s=60, whole_s=30),
    ],
)
def test_invalid_access_errors_do_not_show_the_secret(wrong: Access):
    with pytest.raises(UserError) as error:
        wrong.plain()
    assert "hunter22" not in f"{error.value.message} {error.value.hint}"

"""How a Prometheus is reached: its address, who asks, and what of that is secret."""

import os
import re
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

import msgspec

from unslow.facts.errors import UserError
from unslow.fleet.asking.said import plain_text

PASSWORD_VARIABLE, TOKEN_VARIABLE = "UNSLOW_PROMETHEUS_PASSWORD", "UNSLOW_PROMETHEUS_TOKEN"
MOST_BYTES, MOST_SERIES = 256 * 1024**2, 500_000
"""Of one answer: 10,000 instances with eight GPUs each are 80,000 series and 50 MB; much more would fill the memory."""
_MOST_QUOTED = 10_000  # more than is ever shown, so that no secret is cut in two
_SECRET_CHARACTERS = 65_536  # a token of a service account has two thousand
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]{0,65536}")
_SECRET_HEADER = re.compile(r"(?i)key|token|secret|passw|auth|cookie|credential|session|signature")
_OWN_HEADERS = ("host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding")
_SAFE = "/%:@!$&'()*+,;=~-._[]?"
_PAGES = re.compile(r"(?:/graph|/api/v1(?:/[\w/]{0,80})?)?$")


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The address as it was given, and the credentials; `plain` puts each where it belongs."""

    url: str
    username: str = ""
    password: str = ""
    bearer: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every query, such as X-Scope-OrgID for the tenant of a Mimir."""
    ca_file: str = ""
    certificate: str = ""
    key: str = ""
    check_certificate: bool = True
    timeout_s: float = 30.0
    """For one query."""
    whole_s: float = 300.0
    """For all of them together."""
    restart_s: float = 20.0
    """How long a server that is away may stay so before that is an error."""
    most_bytes: int = MOST_BYTES
    most_series: int = MOST_SERIES

    def __repr__(self) -> str:
        """Without anything secret, wherever it is printed."""
        return f"Access(url={self.shown_url!r})"

    @property
    def shown_url(self) -> str:
        """The address for reports and errors: neither credentials nor what stands behind a question mark."""
        try:
            parts = urlsplit(_with_scheme(self.url.strip()))
            _ = parts.port
        except ValueError:
            return "(no address)"  # where nobody can tell what of it is secret
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], _path(parts.path), "", ""))

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must appear nowhere, the longest first."""
        hidden = [self.password, self.bearer, _basic(self.username, self.password) if self.password else ""]
        named = (*self.headers, *parse_qsl(urlsplit(_with_scheme(self.url)).query))
        hidden += [value for name, value in named if _SECRET_HEADER.search(name)]
        return tuple(sorted({value for value in hidden if len(value) > 3}, key=len, reverse=True))  # noqa: PLR2004

    def quoted(self, text: str) -> str:
        """A text of the server in one short line, without our secrets, should it repeat them."""
        text = text[:_MOST_QUOTED]
        for secret in self.secrets:
            text = text.replace(secret, "masked")
        return plain_text(text)

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers that say who asks; those that the user gave go before ours."""
        ours: dict[str, str] = {}
        if self.bearer:
            ours["Authorization"] = f"Bearer {self.bearer}"
        elif self.username or self.password:
            ours["Authorization"] = f"Basic {_basic(self.username, self.password)}"
        given = {name.lower() for name, _ in self.headers}
        return {name: value for name, value in ours.items() if name.lower() not in given} | dict(self.headers)

    def plain(self) -> "Access":
        """The same with the credentials taken out of the address; UserError where something can't be used."""
        try:
            parts = urlsplit(_with_scheme(self.url.strip()))
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise UserError("the address of Prometheus is not a URL", "try http://localhost:9090") from error
        if parts.scheme not in ("http", "https") or not host:
            raise UserError(f"{self.shown_url!r} is not an http:// or https:// address", "try http://localhost:9090")
        query = "" if parts.path.endswith("/graph") else quote(parts.query, _SAFE)  # a page's own, not the server's
        path = quote(_path(parts.path), _SAFE)
        url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, query, ""))
        access = msgspec.structs.replace(
            self,
            url=url,
            username=self.username or unquote(parts.username or ""),
            password=self.password or unquote(parts.password or ""),
        )
        _check(access)
        return access


def access_of(  # noqa: PLR0913 (as many as there are ways to say who asks)
    url: str,
    *,
    username: str = "",
    password_file: str = "",
    bearer_file: str = "",
    headers: tuple[str, ...] = (),
    ca_file: str = "",
    certificate: str = "",
    key: str = "",
    check_certificate: bool = True,
    timeout_s: float = 30.0,
    whole_s: float = 300.0,
    environment: Mapping[str, str] = os.environ,
) -> Access:
    """What a command line says; secrets come from files or the environment, as everybody sees command lines."""
    given = Access(
        url=url,
        username=username,
        password=_read_secret(password_file),
        bearer=_read_secret(bearer_file),
        headers=tuple(_header(line) for line in headers),
        ca_file=ca_file,
        certificate=certificate,
        key=key,
        check_certificate=check_certificate,
        timeout_s=timeout_s,
        whole_s=whole_s,
    )
    return with_environment(given, environment)


def with_environment(access: Access, environment: Mapping[str, str] = os.environ) -> Access:
    """The same, with the password or token of the environment where none was given; the address made plain."""
    plain = access.plain()
    if plain.username and not plain.password:
        return msgspec.structs.replace(plain, password=environment.get(PASSWORD_VARIABLE, "")).plain()
    if not plain.username and not plain.bearer:
        return msgspec.structs.replace(plain, bearer=environment.get(TOKEN_VARIABLE, "").strip()).plain()
    return plain


def _with_scheme(url: str) -> str:
    return url if "://" in url[:16] else f"http://{url}"


def _path(path: str) -> str:
    """Up to the API, where somebody gives the address of a page or of the API itself."""
    return _PAGES.sub("", path[:2000].rstrip("/")).rstrip("/")


def _basic(username: str, password: str) -> str:
    return b64encode(f"{username}:{password}".encode()).decode()


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon:
        raise UserError("a header is written as 'Name: value'", "for example --header 'X-Scope-OrgID: team-a'")
    return name.strip(), value.strip()


def _read_secret(path: str) -> str:
    """What the file holds, without the end of its line; nothing where no file is named."""
    if not path:
        return ""
    hint = "the file holds the password or token and nothing else"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_SECRET_CHARACTERS).strip("\r\n")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', '') or 'it is not text'}", hint) from error
    if not text:
        raise UserError(f"{path} is empty", hint)
    return text


def _check(access: Access) -> None:
    """UserError for what would break the request, or be half of something; the value itself is never told."""
    if access.bearer and (access.username or access.password):
        raise UserError("both a password and a token were given for Prometheus", "leave one of them out")
    for name, value in (("Authorization", access.bearer), *access.headers):
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UserError(f"the header {name[:40]!r} has characters that no header can have", "is it one line?")
        if name.lower() in _OWN_HEADERS:
            raise UserError(f"the header {name} is not for others to set")
    if access.key and not access.certificate:
        raise UserError("a key was given without its certificate", "name the certificate too")
    if not 0 < access.timeout_s <= access.whole_s:
        raise UserError("the time for one query must be more than 0 s and no more than that for all of them")

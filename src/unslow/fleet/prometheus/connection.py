"""How a Prometheus is reached: its address, credentials and certificates, TLS, and what of that is secret."""

import http.client
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

import msgspec

from unslow.facts.errors import UserError
from unslow.fleet.report import Kind, Statement
from unslow.look.system import ExchangeError, LookError
from unslow.look.system.http import Connection, is_loopback, look_error

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
_LONGEST_TEXT = 300
_MOST_NAMED, _MOST_STATEMENTS = 3, 100  # More would hide the rest; a server can make up as many as it likes
_NOT_SHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The address as it was given, and the credentials; `plain` puts each where it belongs."""

    url: str
    username: str = ""
    password: str = ""
    bearer: str = ""
    headers: tuple[tuple[str, str], ...] = ()  # Sent with every query, such as X-Scope-OrgID for the tenant of a Mimir
    ca_file: str = ""
    certificate: str = ""
    key: str = ""
    check_certificate: bool = True
    timeout_s: float = 30.0  # For one query
    whole_s: float = 300.0  # For all of them together
    restart_s: float = 20.0  # How long a server that is away may stay so before that is an error
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

    def mask_secrets(self, text: str) -> str:
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
            raise UserError("--prometheus is not a URL", "try http://localhost:9090") from error
        if parts.scheme not in ("http", "https") or not host:
            raise UserError(f"{self.shown_url!r} is not an http:// or https:// address", "try http://localhost:9090")
        query = "" if parts.path.endswith("/graph") else quote(parts.query, _SAFE)  # a page's own, not the server's
        path = quote(_path(parts.path), _SAFE)
        url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, query, ""))
        username = self.username or unquote(parts.username or "")
        password = self.password or unquote(parts.password or "")
        access = msgspec.structs.replace(self, url=url, username=username, password=password)
        if access.bearer and (access.username or access.password):
            raise UserError("both a password and a token were given for Prometheus", "leave one of them out")
        for name, value in (("Authorization", access.bearer), *access.headers):  # the value itself is never told
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise UserError(f"the header {name[:40]!r} has invalid characters", "it must be one line")
            if name.lower() in _OWN_HEADERS:
                raise UserError(f"the header {name} cannot be set")
        if access.key and not access.certificate:
            raise UserError("--key needs --cert", "give both files")
        if not 0 < access.timeout_s <= access.whole_s:
            raise UserError("the timeout of one query must be above 0 s and at most the limit for all queries")
        return access


def with_environment(access: Access, environment: Mapping[str, str]) -> Access:
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


def parse_header(line: str) -> tuple[str, str]:
    """Name and value; UserError where there is no colon between them."""
    name, colon, value = line.partition(":")
    if not colon:
        raise UserError("--header must be 'Name: value'", "for example --header 'X-Scope-OrgID: team-a'")
    return name.strip(), value.strip()


def read_secret(path: str) -> str:
    """What the file holds, without the end of its line; nothing where no file is named."""
    if not path:
        return ""
    hint = "the file must hold only the password or token"
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_SECRET_CHARACTERS).strip("\r\n")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', '') or 'it is not text'}", hint) from error
    if not text:
        raise UserError(f"{path} is empty", hint)
    return text


class Reply(NamedTuple):
    """An answer, whatever its status."""

    status: int
    body: bytes
    headers: http.client.HTTPMessage

    def header(self, name: str) -> str:
        return self.headers.get(name) or ""


class CutShortError(ExchangeError):
    """The answer began and did not end, or can't be unpacked: with this query or on this way it may do so again."""


class Line:
    """The connection to one server; LookError for whatever goes wrong on the way, UserError where TLS can't be.

    Nothing is followed: what is sent goes to the address that the user gave, and nowhere else.
    """

    def __init__(self, access: Access) -> None:
        parts = urlsplit(access.url)
        self._shown, self._most = access.shown_url, access.most_bytes
        tls = context_of(access) if parts.scheme == "https" else None
        self._connection = Connection(access.url, named=self._shown, tls=tls)
        # Packing takes a tenth more of the server's time, which a network is worth and this machine is not.
        encoding = "identity" if is_loopback(parts.hostname or "") else "gzip"
        self._headers = {"Accept": "application/json", "Accept-Encoding": encoding, **access.sent_headers}
        self._ended = False

    def exchange(self, method: str, path: str, form: bytes | None, deadline_s: float) -> Reply:
        """One question and its answer; a connection that was closed while nobody spoke is opened again."""
        was_open = self._connection.is_open
        try:
            return self._exchange(method, path, form, deadline_s)
        except ExchangeError as error:
            if not was_open or error.kind != "broke_off":
                raise
        return self._exchange(method, path, form, deadline_s)

    def end(self) -> None:
        """Hang up for good: whoever still waits for an answer, in whichever thread, is told so now."""
        self._ended = True
        self._connection.shut()
        self._connection.close()

    def _exchange(self, method: str, path: str, form: bytes | None, deadline_s: float) -> Reply:
        if self._ended:
            raise LookError(f"the connection to {self._shown} was closed")
        kind = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        began = False
        try:
            response = self._connection.send(method, path, form, self._headers | kind, deadline_s)
            began = True
            return Reply(response.status, response.body(self._most, unpack=True), response.headers)
        except LookError as error:
            if began and isinstance(error, ExchangeError) and error.kind == "broke_off":
                raise CutShortError("error", error.why) from error
            raise self._failure(error) from error

    def _failure(self, error: LookError) -> LookError | UserError:
        """What went wrong, in the words of those who named certificates and a Prometheus."""
        cause = error.__cause__
        if not isinstance(cause, Exception) or isinstance(cause, TimeoutError):
            return error
        if told := tls_error(self._shown, cause):
            return told
        if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return look_error(self._shown, ConnectionResetError())
        if isinstance(cause, http.client.HTTPException) and not isinstance(cause, ConnectionError):
            return LookError(f"{self._shown} does not speak HTTP")
        return error


def context_of(access: Access) -> ssl.SSLContext:
    """With the authority and the certificate that the user named; UserError where a file can't be used."""
    try:
        context = ssl.create_default_context(cafile=access.ca_file or None)
    except (OSError, ValueError) as error:
        raise UserError(f"{access.ca_file}: {_why(error)}", "it must hold the CA certificate as PEM") from error
    if not access.check_certificate:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if access.certificate:
        try:
            # An empty password, or OpenSSL asks for one on the terminal.
            context.load_cert_chain(access.certificate, access.key or None, password="")
        except (OSError, ValueError) as error:
            named = " and ".join(file for file in (access.certificate, access.key) if file)
            hint = "they must hold the client certificate and its key as PEM, the key without a password"
            raise UserError(f"{named}: {_why(error)}", hint) from error
    return context


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
        return "not a usable certificate or key"
    return error.strerror or "cannot be read"


def tls_error(shown_url: str, error: Exception) -> UserError | None:
    """What a failure of TLS means; None for any other."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "--ca-file names the CA certificate; --insecure skips the check"
        return UserError(f"{shown_url}: certificate not trusted: {error.verify_message}", hint)
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    reason = error.reason or ""
    if any(word in reason for word in ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNKNOWN_CA")):
        return UserError(f"{shown_url} requires a client certificate", "give it with --cert and --key")
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason or "RECORD_LAYER" in reason:
        return UserError(f"{shown_url} does not speak TLS", f"try http://{shown_url.partition('://')[2]}")
    return UserError(f"{shown_url}: TLS failed: {reason.lower().replace('_', ' ') or 'no reason given'}")


class StatementLog:
    """Statements in the order in which they were first made."""

    def __init__(self) -> None:
        self._about: dict[tuple[Kind, str, str], list[str]] = {}

    def say(self, kind: Kind, text: str, hint: str = "", about: str = "") -> None:
        """Once more, of the query called `about`, or of the whole server."""
        key = (kind, text, hint)
        if key not in self._about and len(self._about) >= _MOST_STATEMENTS:
            key = ("note", f"messages beyond {_MOST_STATEMENTS} were left out", "")
        queries = self._about.setdefault(key, [])
        if about and about not in queries:
            queries.append(about)

    def statements(self) -> tuple[Statement, ...]:
        found = []
        for (kind, text, hint), queries in self._about.items():
            more, count = len(queries) - _MOST_NAMED, "query" if len(queries) == 1 else f"{len(queries)} queries"
            named = ", ".join(queries[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            about = f" ({count}: {named})" if queries else ""
            found.append(Statement(kind=kind, text=text + about, hint=hint))
        return tuple(found)


def plain_text(text: str) -> str:
    """A text of the server in one line, of bounded length, without anything that a terminal would obey."""
    line = _NOT_SHOWN.sub(" ", text[: 4 * _LONGEST_TEXT]).strip()
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "…"

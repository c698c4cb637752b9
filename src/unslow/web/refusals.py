"""Which requests are refused, and with which words: everything that is not the page itself or who knows the token."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qs

from unslow.web.own import Own

PAGE = "/"
TOKEN_HEADER = "x-unslow-token"  # noqa: S105 (the name of a header)
METHODS = ("GET", "POST", "DELETE")
NO_TOKEN = 401
"""The status of the last refusal: all else is as it should be."""
LARGEST_BODY_BYTES = 16 * 1024
"""The one body that is understood has three short fields."""
LONGEST_HEAD = 16 * 1024
"""Characters of the address and all headers; a browser sends a tenth of it."""
LONGEST_PATH = 400
"""Characters; the longest that means something ends with the name of a cause."""
_OWN_SITE = ("same-origin", "none")
"""What a browser says of a request by the page itself, and of an address that somebody typed or opened."""
_OPEN = "open the address that `unslow serve` printed, with its token"
_QUERY_LIMIT = 64


class Asked(NamedTuple):
    """What of a request decides whether it is answered; names of headers in small letters."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    @property
    def changes(self) -> bool:
        """Whether it would start or stop something."""
        return self.method != "GET"

    def parameter(self, name: str) -> str:
        """A parameter of the query; empty where there is none, or more than one."""
        try:
            values = parse_qs(self.query, max_num_fields=_QUERY_LIMIT).get(name, [])
        except ValueError:
            return ""
        return values[0] if len(values) == 1 else ""


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    message: str
    hint: str = ""


def refusal(asked: Asked, own: Own) -> Refusal | None:
    """Why this request is refused; None where it may be answered."""
    return _too_long(asked) or _wrong_host(asked, own) or _wrong_sender(asked, own) or _wrong_form(asked)


def _too_long(asked: Asked) -> Refusal | None:
    if len(asked.path) > LONGEST_PATH:
        return Refusal(414, "there is no address that long", "see /api/v1/openapi.json")
    long = len(asked.path) + len(asked.query) + sum(len(k) + len(v) for k, v in asked.headers.items())
    return Refusal(431, "the address and the headers are too long", "ask for less") if long > LONGEST_HEAD else None


def _wrong_host(asked: Asked, own: Own) -> Refusal | None:
    if asked.headers.get("host", "").lower() in own.hosts:
        return None
    return Refusal(421, "this server does not answer to that name", f"ask {own.base}")


def _wrong_sender(asked: Asked, own: Own) -> Refusal | None:
    """Refused where a browser says that another page sent it, or where the token is missing."""
    origin, site = asked.headers.get("origin"), asked.headers.get("sec-fetch-site", "none")
    if asked.method not in METHODS:
        return Refusal(405, f"{asked.method[:20]} is not a method of this server", f"use {', '.join(METHODS)}")
    if (origin is not None and origin not in own.origins) or site not in _OWN_SITE:
        return Refusal(403, "another page may not ask this server", _OPEN)
    if asked.changes and origin is None:
        return Refusal(403, "what starts or stops something must say where it comes from", f"Origin: {own.base}")
    return None if own.knows(_token(asked)) else Refusal(NO_TOKEN, "the token is missing or wrong", _OPEN)


def _token(asked: Asked) -> str:
    """The page has it in its address, for a browser can open it in no other way; all else sends it as a header."""
    return asked.parameter("token") if asked.path == PAGE else asked.headers.get(TOKEN_HEADER, "")


def _wrong_form(asked: Asked) -> Refusal | None:
    kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    if asked.method == "POST" and kind != "application/json":
        return Refusal(415, "a POST must be JSON", "Content-Type: application/json")
    length = asked.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:12]) > LARGEST_BODY_BYTES:
        return Refusal(413, f"more than {LARGEST_BODY_BYTES} bytes", "a run is asked for with a few words")
    return None

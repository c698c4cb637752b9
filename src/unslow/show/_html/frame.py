"""The frame of every page: head, style, script, landmarks; one file that asks nobody for anything."""

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from unslow.show._html.live import run_bar
from unslow.show._html.markup import NOTHING, Markup, tag

_POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


class Serving(NamedTuple):
    """What makes a page live: the nonce that its policy allows, and the token that its questions carry."""

    nonce: str
    token: str


class Tab(NamedTuple):
    """A page of the server."""

    label: str
    href: str
    current: bool = False


@cache
def style() -> str:
    """The style sheet, that of the charts included."""
    return "\n".join(_asset(name) for name in ("style.css", "charts.css"))


@cache
def script() -> str:
    """The script."""
    return _asset("page.js")


def framed(
    title: str, content: Markup, *, head: Markup = NOTHING, serving: Serving | None = None, tabs: tuple[Tab, ...] = ()
) -> str:
    """A whole document; `head` stands beside the name in its header. Without `serving` it is a file."""
    body = tag(
        "body",
        tag("a", "Skip to the content", class_="skip", href="#main"),
        _header(title, head, tabs),
        tag("main", content, id="main", tabindex="-1"),
        run_bar() if serving else NOTHING,
        tag("p", "", id="said", class_="for-ears", role="status", aria_live="polite"),
        _patterns(),
    )
    return f"<!doctype html>\n{tag('html', _head(title, serving), body, lang='en')}\n"


def _head(title: str, serving: Serving | None) -> Markup:
    nonce = serving.nonce if serving else None
    policy = _POLICY.format(script=_hash(script()), style=_hash(style()))
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        NOTHING if serving else tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="unslow-token", content=serving.token) if serving else NOTHING,
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(style()), nonce=nonce),
        tag("script", Markup(script()), nonce=nonce),
    )


def _header(title: str, head: Markup, tabs: tuple[Tab, ...]) -> Markup:
    theme = tag("button", "Dark theme", type="button", id="theme", class_="only-script", aria_pressed="false")
    links = [tag("a", tab.label, href=tab.href, aria_current="page" if tab.current else None) for tab in tabs]
    nav = tag("nav", *links, aria_label="Pages", class_="tabs") if tabs else NOTHING
    return tag("header", tag("div", tag("h1", title), head, class_="names"), nav, theme)


def _patterns() -> Markup:
    """What tells areas apart without their colour."""
    line = tag("path", d="M-2,2 l4,-4 M0,8 l8,-8 M6,10 l4,-4", class_="hatch-line")
    pattern = tag("pattern", line, id="hatch", width="8", height="8", patternUnits="userSpaceOnUse")
    return tag("svg", tag("defs", pattern), width="0", height="0", class_="patterns", aria_hidden="true")


def _hash(content: str) -> str:
    return b64encode(sha256(content.encode()).digest()).decode()


def _asset(name: str) -> str:
    file = files("unslow.show._html") / "assets" / name
    return file.read_text(encoding="utf-8")

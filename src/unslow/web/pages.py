"""The pages that a browser opens: the diagnosis, the buyer's tools, and what to show while there is neither."""

from urllib.parse import quote

from unslow.facts.errors import UserError
from unslow.show._html.document import document
from unslow.show._html.frame import Serving, Tab, framed
from unslow.show._html.markup import joined, sentence, tag
from unslow.web.book import BusyError
from unslow.web.buyers_page import buyers_content
from unslow.web.desk import Desk
from unslow.web.offers import offers_of

BUY = "buy"
WAIT_S = 0.8
"""How long a browser waits for the first look; then a page says that it takes a moment, and waits on."""


def page_of(desk: Desk, wanted: str, serving: Serving) -> str:
    """The page of that name; one that says what is wrong, where there is nothing to show."""
    tabs = _tabs(serving.token, wanted)
    if wanted == BUY:
        return framed("unslow: what to buy", buyers_content(), serving=serving, tabs=tabs)
    desk.look_again()
    try:
        seen = desk.seen(WAIT_S)
    except BusyError as error:
        return _waiting(error.message, serving)
    except UserError as error:
        desk.was_told = True
        again = "When that is done, load this page again." if desk.is_live else ""
        said = joined([
            tag("p", sentence(error.message), role="alert"), tag("p", sentence(error.hint), " ", again)
        ])  # fmt: skip
        return framed("unslow: nothing to show", said, serving=serving, tabs=tabs)
    desk.was_opened()
    return document(
        seen.view, live=True, nonce=serving.nonce, token=serving.token, offers=offers_of(seen, desk.wanted), tabs=tabs
    )


def _tabs(token: str, wanted: str) -> tuple[Tab, ...]:
    secret = quote(token)
    return (
        Tab("Diagnosis", f"/?token={secret}", wanted != BUY),
        Tab("What to buy", f"/?view={BUY}&token={secret}", wanted == BUY),
    )


def _waiting(message: str, serving: Serving) -> str:
    """A page that asks again at once, with or without a script; the next answer comes when there is something."""
    page = framed("unslow", tag("p", sentence(message), role="status", class_="empty"), serving=serving)
    return page.replace("<head>", '<head><meta http-equiv="refresh" content="0">', 1)

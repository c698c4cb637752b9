"""What only the page of `unslow serve` has: buttons that start a run, and a line that says how it goes."""

from collections.abc import Sequence
from typing import Protocol

from unslow.show._html.markup import NOTHING, Markup, tag


class Offered(Protocol):
    """A run that can be started."""

    @property
    def kind(self) -> str:
        """Its name for the server."""

    @property
    def subject(self) -> int | None:
        """Of which subject; None for whatever runs."""

    @property
    def label(self) -> str:
        """What its button says."""

    @property
    def words(self) -> str:
        """What is sent, and to whom."""

    @property
    def refused(self) -> str:
        """Why it can't be started; empty where it can."""


def run_buttons(offers: Sequence[Offered], number: int) -> Markup:
    """The runs of a subject, each with what it would send."""
    rows = [_offer(offer, number) for offer in offers if offer.subject in (number, None)]
    if not rows:
        return NOTHING
    title = tag("h3", "Measure", id=f"runs-{number}-title")
    return tag(
        "section",
        title,
        tag("ul", *rows),
        id=f"runs-{number}",
        class_="panel wide runs",
        aria_labelledby=f"runs-{number}-title",
    )


def _offer(offer: Offered, number: int) -> Markup:
    identity = f"offer-{number}-{offer.kind}"
    button = tag(
        "button",
        offer.label,
        id=f"start-{number}-{offer.kind}",
        type="button",
        class_="start",
        data_run=offer.kind,
        data_subject=offer.subject,
        aria_describedby=identity,
        disabled=bool(offer.refused),
    )
    return tag("li", button, tag("span", offer.refused or offer.words, id=identity, class_="quiet"))


def run_bar() -> Markup:
    """How the run goes, at the foot of the window; hidden until there is one."""
    return tag(
        "aside",
        tag(
            "div",
            tag("strong", "", id="run-title"),
            tag("span", "", id="run-text"),
            tag("ul", id="run-remarks"),
            tag("span", "", id="run-anyway-words", class_="quiet", hidden=True),
            class_="run-words",
        ),
        tag("progress", id="run-share", max="1", value="0", aria_label="how much of the run is done"),
        tag("button", "Stop", type="button", id="run-stop"),
        tag(
            "button", "Measure anyway", type="button", id="run-anyway", hidden=True, aria_describedby="run-anyway-words"
        ),
        tag("button", "Close", type="button", id="run-close", hidden=True),
        id="run",
        hidden=True,
        aria_label="The run",
    )

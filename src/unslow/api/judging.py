"""Whether a claim is possible, and what a cause is."""

import msgspec

from unslow.think.claims.report import CheckReport


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, or the verdict "normal", as it is documented."""

    id: str
    title: str
    phase: str
    """Where the time goes that it costs."""
    needs: tuple[str, ...] = ()
    """The facts that decide it."""
    explains: tuple[str, ...] = ()
    """Causes that it accounts for where it is found."""
    text: str = ""
    """Markdown."""


def check(claim: str, *, several: bool = False) -> CheckReport:
    """Whether a claim of a speed, a size or a fit is possible, with the arithmetic.

    claim: free text, such as "Llama 3.3 70B at Q4_K_M fits in 24 GB"
    several: every sentence and every cell of a table in the text is a claim of its own
    """
    from unslow.app.check import answer  # noqa: PLC0415 (imported when used)

    return answer(claim, several=several)


def explain(cause: str) -> Page:
    """What a cause is, why it is slow, how to confirm it and how to fix it on each runtime.

    cause: the id of a cause, such as weights_spill_to_ram; `causes` lists them
    """
    from unslow.app.explain import page  # noqa: PLC0415 (imported when used)

    return Page(**page(cause)._asdict())


def causes() -> tuple[Page, ...]:
    """Every cause that can be found, in alphabetical order, and the verdict "normal" last."""
    from unslow.app.explain import pages  # noqa: PLC0415 (imported when used)

    return tuple(Page(**page._asdict()) for page in pages())

"""What has come of an answer so far: when each piece came, which of them were thoughts, how the text begins."""

from typing import Any

KEPT_CHARS = 32_768
"""Of the text, for the next turn of a conversation; an answer can be far longer than a reply may hold."""
_LONGEST_TAG = 16
_BEGINS, _ENDS = ("<think>", "[THINK]"), ("</think>", "[/THINK]")


class Heard:
    """Filled while an answer streams in, so that one that breaks off still tells how far it came."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: the question is asked once more."""
        self.arrivals: list[float] = []
        self.thoughts = 0
        """Pieces that the model thought rather than said."""
        self.last_s = 0.0
        """When anything came, text or not."""
        self._kept: list[str] = []
        self._room = KEPT_CHARS
        self._tail, self._thinks = "", False

    def piece(self, seconds: float, text: Any) -> None:
        """A piece of plain text, in which a thought stands between tags; what is no text shows nothing."""
        self.arrivals.append(seconds)
        self.last_s = seconds
        if not isinstance(text, str):
            return
        self._keep(text)
        thinks = self._thinks
        if thinks or self._tail or "<" in text or "[" in text:
            thinks = self._follow_tags(text)
        self.thoughts += thinks

    def thought(self, seconds: float) -> None:
        """A piece that the server itself calls a thought; the text of a next turn is without it."""
        self.arrivals.append(seconds)
        self.last_s = seconds
        self.thoughts += 1

    def whole(self, text: Any) -> None:
        """An answer in one piece: its text, and no arrivals."""
        self._keep(text if isinstance(text, str) else "")

    @property
    def text(self) -> str:
        """How the answer begins."""
        return "".join(self._kept)

    def _keep(self, text: str) -> None:
        if self._room > 0:
            self._kept.append(text[: self._room])
            self._room -= len(text)

    def _follow_tags(self, text: str) -> bool:
        """Whether any of the text is thought, tags and all; a tag may be spread over pieces."""
        seen, thought = self._tail + text, self._thinks
        while tag := next((tag for tag in (_ENDS if self._thinks else _BEGINS) if tag in seen), ""):
            seen = seen.partition(tag)[2]
            self._thinks, thought = not self._thinks, True
        tail = seen[-_LONGEST_TAG:]
        self._tail = tail if "<" in tail or "[" in tail else ""
        return thought


def thinking_tokens(heard: Heard, generated: int, counted: int | None, *, shown: bool) -> int | None:
    """How many tokens were thought: as counted by the server, else by pieces where each is one token.

    `shown` is whether all that is generated comes as text, so that no thoughts in it are no thoughts at all.
    """
    if counted is not None:
        return min(counted, generated)
    if len(heard.arrivals) == generated or (shown and not heard.thoughts):
        return heard.thoughts
    return None

"""The log of llama.cpp as a dialect: lines come one by one, and only those that hold a needle."""

from unslow.facts.snapshot import Subject
from unslow.look.logs.dialect import LineDialect, Seen
from unslow.look.logs.llama_cpp.log import RULES, read_line, summary
from unslow.look.logs.llama_cpp.machine import machine_of
from unslow.look.logs.llama_cpp.requests import COUNTED
from unslow.look.logs.llama_cpp.run import run_of_log
from unslow.look.logs.llama_cpp.state import Reading


class LlamaReader:
    """One pass over a text that holds lines of llama.cpp."""

    def __init__(self) -> None:
        self._reading = Reading()
        self._lines = 0

    def take(self, line: str, where: str) -> bool:
        """Read a line; whether llama.cpp wrote it."""
        known = read_line(self._reading, line, where)
        self._lines += known
        return known

    def skip(self, needle: str, count: int) -> None:
        """Lines of a kind that is counted are counted; the others repeat what was read."""
        if needle in COUNTED:
            self._reading.count(needle, count)
        self._lines += count

    def seen(self, source: str) -> Seen:
        """The last load, its requests, and the machine as llama.cpp saw it."""
        if not self._reading.recognised:
            return Seen()
        reading = self._reading.last_told()
        log = summary(reading, source)
        subject = Subject(runtime=log.runtime, model=log.model, run=run_of_log(log))
        return Seen(machine=machine_of(reading), subject=subject, lines=self._lines)


_CHATTY = ("eval time", "all slots are idle", "top_k = ", "draft acceptance", "tg_3s", "slot context shift")
_TABLES = ("breakdown_print: | ",)  # one at the end of each server, many while it looks for what fits
DIALECT = LineDialect(
    needles=tuple(dict.fromkeys(rule.needle for rule in RULES)),
    start=LlamaReader,
    chatty=frozenset({*_CHATTY, *_TABLES}),
)

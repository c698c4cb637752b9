from unslow.look.logs.dialect import LONGEST_LINE, LineDialect, LogFacts
from unslow.look.logs.stream import BLOCK_BYTES, LogStream, whole_line_blocks

EXACT = 2 << 20


class Collector:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.skipped: dict[str, int] = {}

    def take(self, line: str, where: str) -> bool:
        self.shown.append((line, where))
        return "known" in line

    def skip(self, needle: str, count: int) -> None:
        self.skipped[needle] = self.skipped.get(needle, 0) + count

    def seen(self, source: str) -> LogFacts:
        return LogFacts(lines=len(self.shown))


def streamed(*chunks: bytes, needles: tuple[str, ...] = ("needle",), chatty: frozenset[str] = frozenset()) -> LogStream:
    stream = LogStream({"one": LineDialect(needles, Collector, chatty)}, "log", EXACT)
    for block in whole_line_blocks(chunks):
        stream.feed(block)
    return stream


def shown(stream: LogStream) -> list[tuple[str, str]]:
    reader = stream.readers["one"]
    assert isinstance(reader, Collector)
    return reader.shown


def skipped(stream: LogStream) -> dict[str, int]:
    reader = stream.readers["one"]
    assert isinstance(reader, Collector)
    return reader.skipped


def test_only_lines_with_a_needle_reach_the_dialect_with_their_number():
    stream = streamed(b"hay\nhay needle one\n\nhay\nneedle two needle\nhay")
    assert shown(stream) == [("hay needle one", "log:2"), ("needle two needle", "log:5")]
    assert (stream.lines, stream.bytes, stream.sampled) == (6, 45, False)


def test_a_line_split_across_chunks_is_joined():
    text = b"".join(b"line %d with a needle\n" % n for n in range(200))
    for size in (1, 7, 64, 1000):
        stream = streamed(*(text[at : at + size] for at in range(0, len(text), size)))
        assert [where for _, where in shown(stream)] == [f"log:{n}" for n in range(1, 201)]
        assert shown(stream)[99][0] == "line 99 with a needle"


def test_blocks_end_at_line_ends_and_lose_no_bytes():
    text = b"x" * 700_000 + b"\n" + b"y" * 700_000 + b"\n" + b"z" * 100
    assert b"".join(whole_line_blocks([text])) == text
    assert all(block.endswith(b"\n") for block in list(whole_line_blocks([text]))[:-1])


def test_line_numbers_continue_across_blocks():
    line = b"hay " * 50 + b"\n"
    count = 3 * BLOCK_BYTES // len(line)
    stream = streamed(line * count + b"a needle at the end\n")
    assert shown(stream) == [("a needle at the end", f"log:{count + 1}")]
    assert stream.lines == count + 1


def test_carriage_returns_split_a_progress_bar_within_one_line_number():
    stream = streamed(b"needle 10%\rneedle 20%\rhay 30%\rneedle 100%\r\nhay\r\n")
    assert shown(stream) == [("needle 10%", "log:1"), ("needle 20%", "log:1"), ("needle 100%", "log:1")]


def test_an_endless_line_is_passed_on_in_bounded_parts():
    stream = streamed(*([b"hay needle " * 50_000] * 4))
    assert all(len(line) <= LONGEST_LINE for line, _ in shown(stream))
    assert {where for _, where in shown(stream)} == {"log:1"}
    assert stream.lines == 1


def test_a_long_repetitive_log_is_sampled_and_skipped_lines_counted():
    line = b"hay hay hay hay hay hay needle hay hay hay hay hay hay\n"
    count = 3 * EXACT // len(line)
    stream = streamed(line * count)
    assert stream.sampled
    assert len(shown(stream)) + skipped(stream)["needle"] == count
    assert len(shown(stream)) < count / 2
    assert shown(stream)[-1][1] == f"log:{count}"


def test_chatty_needles_are_sampled_more_sparsely():
    text = b"".join(b"hay hay hay hay hay chat %d hay hay\nhay\n" % n for n in range(120_000))
    plain = streamed(text, needles=("chat",))
    chatty = streamed(text, needles=("chat",), chatty=frozenset({"chat"}))
    exact = text[: EXACT - BLOCK_BYTES].count(b"chat")
    assert exact < len(shown(chatty)) < len(shown(plain)) < 120_000


def test_a_rare_needle_in_a_chatty_line_is_passed_on():
    line = b"chat hay hay hay hay hay hay hay hay hay hay hay\n"
    half = 2 * EXACT // len(line)
    text = line * half + b"chat and a needle\n" + line * half
    assert ("chat and a needle", f"log:{half + 1}") in shown(streamed(text, needles=("chat", "needle")))


def test_each_dialect_gets_its_own_and_shared_lines():
    dialects = {"one": LineDialect(("alpha", "both"), Collector), "two": LineDialect(("beta", "both"), Collector)}
    stream = LogStream(dialects, "log")
    stream.feed(b"alpha\nbeta\nboth\nalpha beta known\n")
    lines = {name: reader.shown for name, reader in stream.readers.items() if isinstance(reader, Collector)}
    assert [line for line, _ in lines["one"]] == ["alpha", "both", "alpha beta known"]
    assert [line for line, _ in lines["two"]] == ["beta", "both", "alpha beta known"]
    assert stream.recognised == {"one": 1, "two": 1}


def test_unrecognised_lines_are_kept_with_their_numbers():
    [text] = streamed(b"first\nneedle known\nneedle new\nlast").unread()
    assert list(zip(text.numbers, text.lines, strict=True)) == [(1, "first"), (3, "needle new"), (4, "last")]
    assert text.where(2) == "log:4"


def test_of_a_long_unrecognised_log_head_and_tail_are_kept():
    text = b"".join(
        b"line %09d of a long log, and on it goes, " % n + b"and on " * 20 + b"\n" for n in range(1, 40_001)
    )
    head, tail = streamed(text).unread()
    assert head.lines[0].startswith("line 000000001 of")
    assert tail.lines[-1].startswith("line 000040000 of")
    assert tail.numbers[-1] == 40_000
    assert sum(len(line) for part in (head, tail) for line in part.lines) < 5 << 20

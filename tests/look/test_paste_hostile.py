"""Hostile pasted texts: bounded memory and time, and never a traceback."""

import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.snapshot import Snapshot, dump_snapshot, parse_snapshot
from unslow.look.logs.stream import MOST_LINES_KEPT, LogStream, whole_line_blocks
from unslow.look.paste import PastedFacts, line_dialects, read_paste

NEEDLES = sorted({needle for dialect in line_dialects().values() for needle in dialect.needles})
NUMBERS = ["nan", "inf", "-1", "1e308", "9" * 40, "0", "-0.0", "0x1F", "1,5", "٣", "²"]
SCRAPS = ["\x1b[31m", "\x00", "\r", "\u202e", "{" * 300, '"', "'", "|", "=", " GiB", " MiB", "%", "layers", "\ufffd"]


def checked(chunks: Iterable[bytes]) -> PastedFacts:
    """What was read can be written down and read again: every number is one that its fact allows."""
    told = read_paste(chunks, "post")
    snapshot = Snapshot(unslow_version="test", machine=told.machine, subjects=told.subjects)
    text = dump_snapshot(snapshot)
    assert parse_snapshot(text).subjects == told.subjects
    assert b"\\u001b" not in text
    return told


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(NEEDLES + NUMBERS + SCRAPS) | st.text(max_size=12), min_size=1, max_size=8).map(
            "".join
        ),
        max_size=30,
    )
)
def test_random_log_like_lines_do_not_crash(lines: list[str]):
    checked(["\n".join(lines).encode("utf-8", "surrogatepass")])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=20))
def test_random_bytes_do_not_crash(chunks: list[bytes]):
    checked(chunks)


@pytest.mark.parametrize(
    "text",
    [
        "load_tensors: offloaded {}/33 layers to GPU",
        "CUDA0 model buffer size = {} MiB",
        "llama_context: n_ctx = {}",
        "prompt eval time = {} ms / {} tokens",
        "eval time = {} ms / {} runs",
        "GPU KV cache usage: {}%, Avg generation throughput: {} tokens/s",
        'msg="inference compute" library=CUDA total="{} GiB" available="{} GiB"',
        "Mem: {} {} {}",
        "| {} | {} |",
        "system_info: n_threads = {} (n_threads_batch = {}) / {}",
    ],
)
@pytest.mark.parametrize("number", NUMBERS)
def test_impossible_numbers_do_not_crash(text: str, number: str):
    checked([text.replace("{}", number).encode()])


def test_deeply_nested_json_in_a_line_does_not_crash():
    for opening in ("[", '{"a":', '{"log":"', '{"build_commit":'):
        checked([(opening * 100_000).encode()])


def endless(piece: bytes, size: int) -> Iterator[bytes]:
    """A line that never ends."""
    for _ in range(size // len(piece)):
        yield piece


@pytest.mark.parametrize(
    "piece",
    [b"x" * 65_536, b"eval time = 1.0 ms / 5 tokens " * 2000, b" E " * 20_000, b"\x00" * 65_536, b"\x1b[" * 30_000],
    ids=["plain", "needles", "short needles", "zero bytes", "escapes"],
)
def test_an_endless_line_takes_bounded_memory(piece: bytes):
    read_paste([b"warm up"], "post")  # modules and automaton are not what is measured
    tracemalloc.start()
    try:
        told = read_paste(endless(piece, 5 << 18), "post")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert told.lines == 1
    assert peak < 150e6


def test_escape_sequences_are_removed():
    told = checked([b"\x1b]0;title\x07ggml_vulkan: 0 = \x1b[31mEvil GPU\x1b[0m (x) | uma: 0 |\n\x1b[2Jwords\n"])
    assert "\x1b" not in str(told)


@pytest.mark.parametrize("line", [b"\n", b"a\n", b"gpu\r\n"])
def test_millions_of_short_lines_take_bounded_memory(line):
    stream = LogStream(line_dialects(), "x")
    for block in whole_line_blocks([line * 1_000_000] * 3):
        stream.feed(block)
    tracemalloc.start()
    try:
        texts = stream.unread()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert stream.lines == 3_000_000
    assert {texts[0].numbers[0], texts[-1].numbers[-1]} == {1, 3_000_000}
    assert sum(len(text.lines) for text in texts) <= 2 * MOST_LINES_KEPT
    assert peak < 40 << 20

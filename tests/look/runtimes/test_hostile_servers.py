"""Every runtime against hostile servers over real HTTP.

Time and memory are bounded; the result is a LookError or a fact with a reason; the key is masked; no terminal control
characters get through.
"""

import importlib
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from lab.replay import MODES, serve
from lab.replay.answers import FOLDER

from unslow.facts.snapshot import Snapshot, Subject, dump_snapshot, parse_snapshot
from unslow.look import runtimes
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.show.console import clean_report

KEY = "sk-unslow-test-0123456789"
TIMEOUT_S = 0.06
MOST_BYTES = 48 * 1024**2
LARGE = ("endless", "huge", "nested", "many_headers")
ELSEWHERE = "mlx_lm"
"""The answers that a runtime without recorded ones is shown: those of another, which answers as many do."""


STREAMED = {"model": "m", "prompt": "x", "stream": True, "max_tokens": 5}
RECORDED = {path.parent.name for path in FOLDER.glob("*/*.json")}


class Impatient(LiveSystem):
    """The real door, which waits for less long."""

    def request(self, method, url, body=None, headers=None, timeout_s=0.0):
        return super().request(method, url, body, headers, TIMEOUT_S)


def folder_of(runtime: str) -> Path:
    return FOLDER / (runtime if runtime in RECORDED else ELSEWHERE)


def texts(snapshot: Snapshot) -> str:
    """Every text of a snapshot, as it is."""

    def walk(value):
        match value:
            case str():
                yield value
            case list() | tuple():
                for part in value:
                    yield from walk(part)
            case dict():
                yield from walk([*value, *value.values()])

    return "\n".join(walk(msgspec.to_builtins(snapshot)))


def read_hostile(runtime: str, mode: str) -> tuple[Subject, ...] | LookError | None:
    module = importlib.import_module(f"{runtimes.__name__}.{runtime}")
    with serve(runtime, folder_of(runtime), fail=mode) as url:
        try:
            return module.read_url(Impatient(), url, KEY)
        except LookError as error:
            return error


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("runtime", runtimes.names())
def test_a_hostile_server_gives_an_error_or_storable_facts(runtime, mode):
    found = read_hostile(runtime, mode)
    if isinstance(found, LookError):
        assert KEY not in found.why + found.how_to_get
        assert 0 < len(found.why) < 1000
        return
    snapshot = Snapshot(unslow_version="0", subjects=found or ())
    written = dump_snapshot(snapshot)
    assert KEY.encode() not in written
    assert parse_snapshot(written).subjects == snapshot.subjects  # every number is one that a snapshot may hold
    assert not {c for c in texts(clean_report(snapshot)) if c in "\x1b\x07\x9b\u202e"}


@pytest.mark.parametrize("mode", LARGE)
@pytest.mark.parametrize("runtime", runtimes.names())
def test_a_large_answer_takes_bounded_memory(runtime, mode):
    tracemalloc.start()
    try:
        read_hostile(runtime, mode)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES


@pytest.mark.parametrize("runtime", sorted(RECORDED & set(runtimes.names())))
def test_a_server_with_a_key_is_recognised_and_the_key_not_stored(runtime):
    module = importlib.import_module(f"{runtimes.__name__}.{runtime}")
    with serve(runtime, api_key=KEY) as url:
        found = module.read_url(LiveSystem(), url, KEY)
        assert {subject.runtime.name.value for subject in found} == {module.NAME}
        assert KEY.encode() not in dump_snapshot(Snapshot(unslow_version="0", subjects=found))


@pytest.mark.parametrize("mode", ["endless", "cut", "slow_headers"])
def test_a_stream_without_a_proper_end_is_a_look_error(mode):
    with serve(ELSEWHERE, fail=mode, tokens_per_s=1000) as url:
        stream = LiveSystem().stream(f"{url}/v1/completions", STREAMED, timeout_s=4 * TIMEOUT_S)
        with pytest.raises(LookError, match=r"more than an answer|in time|broke off"):
            list(stream)


@pytest.mark.parametrize("mode", ["escapes", "types", "not_utf8", "numbers"])
def test_a_stream_with_garbage_content_is_read_to_its_end(mode):
    with serve(ELSEWHERE, fail=mode, tokens_per_s=1000) as url:
        stream = LiveSystem().stream(f"{url}/v1/completions", STREAMED)
        assert len([line for line in stream if line.text]) == 7  # five words, the end, and the word that it is one

"""A tool call runs in a thread: progress grows, an exception becomes an error result, a cancelled call stops."""

import threading
import time
from typing import Any

import anyio
import msgspec
from lab.replay import serve

from unslow.commands._output import Progress
from unslow.commands._request import Request
from unslow.look.observer import current_observer
from unslow.look.system import LookError
from unslow.look.system.live import ClosingSystem
from unslow.mcp.server import run_tool
from unslow.mcp.tools import Answer, Tool


class Nothing(Request, frozen=True, kw_only=True):
    """No arguments."""


class Done(msgspec.Struct):
    """An answer."""

    value: int = 1


def tool(answer: Any) -> Tool:
    return Tool("made", "Made", Nothing, answer)


def call(answer: Any, seconds: float = 10) -> tuple[Any, list[tuple[float, str]]]:
    told: list[tuple[float, str]] = []

    async def report(share: float, _total: float | None, text: str | None) -> None:
        told.append((share, text or ""))

    async def asked() -> Any:
        with anyio.move_on_after(seconds):
            return await run_tool(tool(answer), {}, report, anyio.CapacityLimiter(1))
        return None

    return anyio.run(asked), told


def test_progress_shares_strictly_increase_and_keep_their_messages():
    def answer(_given: dict[str, Any], progress: Progress) -> Answer:
        progress.step("first\x1b[31m", 0.5)
        progress.step("again", 0.2)
        progress.say("a line")
        return Answer(Done(), "done", {"more": "x"})

    result, told = call(answer)
    assert result.structured_content == {"value": 1, "more": "x"}
    assert [words for _, words in told] == ["first�[31m", "again", "a line"]
    shares = [share for share, _ in told]
    assert shares == sorted(set(shares))


def test_exception_in_a_tool_becomes_an_error_result_with_traceback_on_stderr(capsys, wording):
    def answer(_given: dict[str, Any], _progress: Progress) -> Answer:
        raise KeyError("gone")

    result, _ = call(answer)
    assert result.is_error
    wording(result.content[0].text)
    assert "Traceback" in capsys.readouterr().err


def test_cancelled_call_stops_its_work_at_the_next_progress_step():
    ended = threading.Event()

    def answer(_given: dict[str, Any], progress: Progress) -> Answer:
        try:
            for number in range(1000):
                progress.step(f"part {number}", 0.0)
                time.sleep(0.02)
        finally:
            ended.set()
        return Answer(Done(), "done")

    result, told = call(answer, seconds=0.2)
    assert result is None
    assert ended.wait(2)
    assert len(told) < 100


def test_cancelled_call_closes_the_connection_to_a_silent_server():
    ended = threading.Event()

    def answer(_given: dict[str, Any], _progress: Progress) -> Answer:
        door, watcher = ClosingSystem(), current_observer()
        assert watcher is not None
        watcher.on_system(door)
        try:
            list(door.stream(f"{url}/completion", {"prompt": "x", "stream": True}))
        except LookError:
            ended.set()
        return Answer(Done(), "done")

    with serve("llama_cpp", latency_s=30.0) as url:
        result, _ = call(answer, seconds=0.3)
        assert result is None
        assert ended.wait(5)

"""One life of a server: loaded, warmed up, asked, and ended; all it said of itself goes into a row."""

import http.client
import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lab.faults.asking import get, tokens
from lab.faults.playing import HEALTHY, started
from lab.plan_gpu import gpu
from lab.plan_gpu.cases import LONG, SHORT, Case
from lab.plan_gpu.server_log import no_memory, said, tail

WARM_PROMPT, WARM_ANSWER = 64, 8
FEWEST_TOKENS = 12
"""Of an answer, however slow."""
END_S = 8
"""For a server to end by itself, so that it prints what memory it had."""
LEAST_LEFT_S = 2.0
_TIMINGS = (
    "prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms", "predicted_per_second",
)  # fmt: skip


class OutOfTimeError(Exception):
    """The call's time is over in the middle of a life: it does not count."""


class Arm(NamedTuple):
    """Settings under a name, and the prompts that they are measured at."""

    name: str
    arguments: tuple[str, ...]
    prompts: tuple[str, ...] = (SHORT, LONG)


class Asked(NamedTuple):
    """How every server is asked."""

    short_tokens: int
    long_tokens: int
    shorts: int
    """Short requests in a life; there is one long one."""
    most_s: float
    """An answer that would take longer is cut short: its speed is what counts."""


class Place(NamedTuple):
    """The program, and where it may listen and write."""

    server: Path
    port: int
    log: Path


def command(case: Case, arm: Arm, model: Path, place: Place) -> list[str]:
    """What is started: the line of the arm, and the context unless it has its own."""
    added = [] if "-c" in arm.arguments else ["-c", str(case.context)]
    address = ["--host", "127.0.0.1", "--port", str(place.port), "-lv", "4", "--no-webui"]
    return [str(place.server), "-m", str(model), *added, *arm.arguments, *address]


def live(case: Case, arm: Arm, model: Path, place: Place, asked: Asked, until: float) -> dict[str, Any]:
    """What this life came to; OutOfTimeError where the clock ended it."""
    place.log.unlink(missing_ok=True)
    row: dict[str, Any] = {"arm": arm.name, "arguments": list(arm.arguments), "requests": []}
    url, began = f"http://127.0.0.1:{place.port}", time.monotonic()
    with started(command(case, arm, model, place), dict(os.environ), place.log) as server:
        try:
            _load(server, url, until)
            row["load_s"] = round(time.monotonic() - began, 2)
            _ask_all(url, case, arm, asked, until, row["requests"])
        except OSError as error:
            if time.monotonic() > until - LEAST_LEFT_S:
                raise OutOfTimeError from error
            row["trouble"] = f"{type(error).__name__}: {error}; it had ended: {server.poll()}"
        row["used_mib"] = gpu.used_mib(server.pid)
        _end(server)
    text = place.log.read_text(errors="replace")
    return {**row, **said(text), **_trouble(row, text), "wall_s": round(time.monotonic() - began, 2)}


def _load(server: "subprocess.Popen[Any]", url: str, until: float) -> None:
    """Wait until it is healthy; OSError where it ended or the time did."""
    while time.monotonic() < until and server.poll() is None:
        with suppress(OSError):
            if get(url, "/health")[0] == HEALTHY:
                return
        time.sleep(0.05)
    raise OSError("It did not load")


def _trouble(row: dict[str, Any], text: str) -> dict[str, Any]:
    """Failed allocations are told of a server that works, too; the end of the log where it does not."""
    failed = no_memory(text)
    return {"no_memory": failed, **({"out_of_memory": bool(failed), "log": tail(text)} if "trouble" in row else {})}


def _end(server: "subprocess.Popen[Any]") -> None:
    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.kill(server.pid, signal.SIGTERM)
        server.wait(END_S)


def _ask_all(url: str, case: Case, arm: Arm, asked: Asked, until: float, heard: list[dict[str, Any]]) -> None:
    warm = completion(url, WARM_PROMPT, WARM_ANSWER, until)
    speed = warm["predicted_per_second"]
    answer = max(FEWEST_TOKENS, min(case.answer_tokens, int(speed * asked.most_s)))
    works = [(SHORT, asked.short_tokens)] * asked.shorts + [(LONG, asked.long_tokens)]
    for prompt, count in works:
        if prompt in arm.prompts:
            heard.append({"prompt": prompt, **completion(url, case.room_for(count), answer, until)})


def completion(url: str, prompt_tokens: int, answer_tokens: int, until: float) -> dict[str, Any]:
    """The server's own times of one answer to a prompt that nobody asked before; OSError where there is none."""
    body = {
        "prompt": tokens(prompt_tokens), "n_predict": answer_tokens, "ignore_eos": True, "temperature": 0,
        "cache_prompt": False,
    }  # fmt: skip
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=max(LEAST_LEFT_S, until - time.monotonic()))
    try:
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise OSError(f"{answer.status}: {text[:300].decode(errors='replace')}")
    try:
        timings = json.loads(text)["timings"]
        return {name: round(timings[name], 3) for name in _TIMINGS}
    except (ValueError, LookupError, TypeError) as error:
        raise OSError(f"no times in {text[:300].decode(errors='replace')}") from error

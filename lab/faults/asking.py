"""Requests to a llama-server, timed by the clock of the one who asks."""

import http.client
import json
import random
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from lab.faults.fault import Heard

TIMEOUT_S = 300.0
_FIRST_WORD, _LAST_WORD = 300, 900  # tokens that every vocabulary has, and that are no control tokens


def tokens(count: int, seed: int | None = None) -> list[int]:
    """A prompt of exactly so many tokens that nobody has asked before; with a seed, the same one each time."""
    dice = random.Random(seed)
    return [dice.randint(_FIRST_WORD, _LAST_WORD) for _ in range(count)]


def get(url: str, path: str, timeout_s: float = 5.0) -> tuple[int, bytes]:
    """Status and body; OSError where nobody answers."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def ask(url: str, prompt: list[int] | str, generate: int, **settings: Any) -> Heard:
    """One streamed answer; samplers and caches are as the server is set up, unless `settings` say otherwise."""
    body = {"prompt": prompt, "n_predict": generate, "ignore_eos": True, "stream": True, **settings}
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    start = time.monotonic()
    try:
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise OSError(f"{answer.status}: {answer.read(300).decode(errors='replace')}")
        return _heard(_events(answer), start)
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in answer:
        if line.startswith(b"data: {"):
            yield json.loads(line[len(b"data: ") :])


def _heard(events: Iterator[dict[str, Any]], start: float) -> Heard:
    """When the first and the last piece came, and what the server counted."""
    first = last = 0.0
    timings: dict[str, Any] = {}
    for event in events:
        if "timings" in event:
            timings = event["timings"]
        if not event.get("stop"):
            last = time.monotonic()
            first = first or last
    if not first:
        raise OSError("no token came")
    counted, computed = int(timings.get("predicted_n", 0)), int(timings.get("prompt_n", 0))
    return Heard(last, first - start, counted, last - first, computed, float(timings.get("prompt_ms", 0)) / 1e3)

"""Users of a server with an OpenAI API: streamed answers to prompts of so many tokens, and what they waited for.

python -m lab.real._openai URL MODEL --users 64 --prompt 512 --answer 128 --seconds 20    one JSON line of what they saw
"""

import argparse
import http.client
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lab.faults.asked import USUAL, Asked
from lab.faults.asking import TIMEOUT_S, get
from lab.faults.fault import Heard, Metric, Playing

FIRST_WORD, LAST_WORD = 1000, 18_000  # tokens that every vocabulary of a lab model has, and that are not control tokens
USERS_PER_PROCESS = 16  # more in one Python process wait for each other, not for the server
ANSWERS, ANSWER, LONG_PROMPT = 3, 128, 4096


class Answer(NamedTuple):
    """One streamed answer: when it was asked for, when each piece came, and how many tokens the server counted."""

    start: float
    pieces: tuple[float, ...]
    tokens: int
    prompt_tokens: int

    def as_heard(self) -> Heard:
        """The same as the lab's rows have it."""
        seconds = self.pieces[-1] - self.pieces[0]
        first = self.pieces[0] - self.start
        return Heard(self.pieces[-1], first, self.tokens, seconds, self.prompt_tokens, first)


def words(count: int, seed: int | None = None) -> list[int]:
    """A prompt of exactly so many tokens; with a seed, the same one each time."""
    dice = random.Random(seed)
    return [dice.randint(FIRST_WORD, LAST_WORD) for _ in range(count)]


def model_of(url: str) -> str:
    """The first model that the server lists."""
    name: str = json.loads(get(url, "/v1/models")[1])["data"][0]["id"]
    return name


def ask(url: str, model: str, prompt: list[int] | str, answer: int, **settings: Any) -> Answer:
    """One streamed answer of exactly so many tokens, where the server can be told to ignore the end of a text."""
    body = {
        "model": model, "prompt": prompt, "max_tokens": answer, "min_tokens": answer, "ignore_eos": True,
        "temperature": 0.7, "stream": True, "stream_options": {"include_usage": True}, **settings,
    }  # fmt: skip
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    start, pieces, usage = time.monotonic(), [], {"completion_tokens": 0, "prompt_tokens": 0}
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise OSError(f"{response.status}: {response.read(300).decode(errors='replace')}")
        for line in response:
            if not line.startswith(b"data: {"):
                continue
            packed = line.replace(b" ", b"")  # some servers write their JSON with spaces
            if b'"usage":{' in packed:
                usage = json.loads(line[6:])["usage"] or usage
            if b'"choices":[]' not in packed:
                pieces.append(time.monotonic())
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
    if not pieces:
        raise OSError("no token came")
    return Answer(start, tuple(pieces), usage["completion_tokens"] or len(pieces), usage["prompt_tokens"])


class Load(NamedTuple):
    """Users who ask again as soon as they are answered."""

    users: int
    prompt: int
    answer: int
    seconds: float = 1e9
    shared: int = 0
    """How many tokens all prompts begin with alike."""
    settings: dict[str, Any] = {}  # noqa: RUF012 (never changed)


def one_user(url: str, model: str, load: Load, seed: int, say: Callable[[Answer], None], end: float) -> None:
    """Ask until the time is over; an answer that breaks off is asked for again after a moment."""
    dice, same = random.Random(seed), words(load.shared, seed=0)
    while time.monotonic() < end:
        try:
            prompt = same + words(load.prompt - load.shared, dice.randrange(2**60))
            say(ask(url, model, prompt, load.answer, **load.settings))
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
            time.sleep(0.5)


def _process(url: str, model: str, load: Load, seeds: range, write: Any) -> None:
    lock, end = threading.Lock(), time.monotonic() + load.seconds

    def say(answer: Answer) -> None:
        with lock:
            write.send(answer)

    threads = [
        threading.Thread(target=one_user, args=(url, model, load, seed, say, end), daemon=True) for seed in seeds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def heard_by_users(url: str, model: str, load: Load, say: Callable[[Answer], None]) -> None:
    """Every answer of all users, as they come, until their time is over."""
    pipes, processes = [], []
    for first in range(0, load.users, USERS_PER_PROCESS):
        read, write = multiprocessing.Pipe(duplex=False)
        seeds = range(first, min(load.users, first + USERS_PER_PROCESS))
        process = multiprocessing.Process(target=_process, args=(url, model, load, seeds, write), daemon=True)
        process.start()
        write.close()
        pipes.append(read)
        processes.append(process)
    while pipes:
        for pipe in wait(pipes):
            assert isinstance(pipe, Connection)
            try:
                say(pipe.recv())
            except EOFError:
                pipes.remove(pipe)


def seen_by_users(answers: list[Answer], since: float, until: float) -> dict[str, float]:
    """What a load gave in a span of time: tokens per second of all, first tokens, and times between tokens."""
    whole = [a for a in answers if a.start >= since and a.pieces[-1] <= until]
    at = [piece for a in answers for piece in a.pieces if since <= piece < until]
    per_piece = sum(a.tokens for a in answers) / max(1, sum(len(a.pieces) for a in answers))
    gaps = [(a.pieces[-1] - a.pieces[0]) / (a.tokens - 1) for a in whole if a.tokens > 1]
    firsts = [a.pieces[0] - a.start for a in whole]
    return {
        "answers": len(whole),
        "tokens_per_s": len(at) * per_piece / (until - since),
        "first_token_s": statistics.median(firsts) if firsts else 0.0,
        "between_tokens_s": statistics.median(gaps) if gaps else 0.0,
    }


def measure_load(url: str, model: str, load: Load, settle_s: float) -> dict[str, float]:
    """The same over the time of a load after its first seconds."""
    answers: list[Answer] = []
    start = time.monotonic()
    heard_by_users(url, model, load, answers.append)
    return seen_by_users(answers, start + settle_s, start + load.seconds)


def decode_together(url: str, model: str, users: int, depth: int, answer: int) -> dict[str, float]:
    """The time between tokens while so many users decode at a depth: their prompts are in the prefix cache before.

    Each user's prompt is its own, so that no two share what attention reads.
    """
    prompts = [words(depth, seed=users * 1000 + user) for user in range(users)]
    parts = [prompts[at : at + USERS_PER_PROCESS] for at in range(0, users, USERS_PER_PROCESS)]
    with multiprocessing.Pool(len(parts)) as pool:
        pool.map(partial(_ask_all, url, model, 1), parts, chunksize=1)
        start = time.monotonic()
        answers = [a for part in pool.map(partial(_ask_all, url, model, answer), parts, chunksize=1) for a in part]
    since, until = max(a.pieces[0] for a in answers), min(a.pieces[-1] for a in answers)
    steps = [(until - since) / max(1, sum(since < piece <= until for piece in one.pieces)) for one in answers]
    if until <= since:  # some were done before the last began
        steps = [one.as_heard().seconds / max(1, one.tokens - 1) for one in answers]
    return {
        "users": users,
        "depth": depth,
        "step_s": statistics.median(steps),
        "together_s": until - since,
        "first_token_s": statistics.median(a.pieces[0] - a.start for a in answers),
        "wall_s": time.monotonic() - start,
    }


def _ask_all(url: str, model: str, answer: int, prompts: list[list[int]]) -> list[Answer]:
    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(pool.map(lambda prompt: ask(url, model, prompt, answer), prompts))


def measured(metric: Metric, playing: Playing, asked: Asked = USUAL) -> float | None:
    """The metric on a stage that is being played; None where it could not be had."""
    if playing.load_s is None:
        return None
    if metric == "load":
        return playing.load_s
    url = playing.diagnose_url or playing.url
    model = model_of(url)
    if playing.clients:
        since = time.monotonic()
        time.sleep(10.0)
        heard = [one for one in list(playing.heard) if one.at_s >= since] or list(playing.heard)
        if metric == "first_token":
            return statistics.median(one.first_token_s for one in heard) if heard else None
        if metric == "together":
            return sum(one.tokens for one in heard) / (time.monotonic() - since)
        return statistics.median(one.tokens_per_s for one in heard) if heard else None
    match metric:
        case "first_token":
            return statistics.median(_second_turn(url, model, asked) for _ in range(ANSWERS))
        case "prefill":
            answers = [ask(url, model, words(LONG_PROMPT), 2).as_heard() for _ in range(ANSWERS)]
            return statistics.median(one.prompt_tokens / one.first_token_s for one in answers)
        case _:
            return statistics.median(ask(url, model, words(32), ANSWER).as_heard().tokens_per_s for _ in range(ANSWERS))


def _second_turn(url: str, model: str, asked: Asked) -> float:
    talk = words(asked.kept)
    if talk:
        ask(url, model, talk, 2)
    return ask(url, model, talk + words(asked.new), 2).as_heard().first_token_s


def users(load: Load, warm_s: float = 5.0) -> Callable[[Playing], Any]:
    """Users beside a stage: they begin some seconds before anything else happens, and go on until it ends."""
    return partial(_users, load=load, warm_s=warm_s)


@contextmanager
def _users(playing: Playing, load: Load, warm_s: float) -> Iterator[None]:
    out = Path(playing.scratch) / "users.jsonl"
    command = [sys.executable, "-m", "lab.real._openai", playing.url, model_of(playing.url), "--json", json.dumps(load)]
    playing.clients = load.users
    stop = threading.Event()
    with out.open("wb") as file, started_users(command, file):
        reader = threading.Thread(target=_read_heard, args=(out, playing.heard, stop), daemon=True)
        reader.start()
        time.sleep(warm_s)
        yield
        stop.set()
        reader.join()


@contextmanager
def started_users(command: list[str], file: Any) -> Iterator[None]:
    """The process of the users, killed with all that it started."""
    process = subprocess.Popen(command, stdout=file, stdin=subprocess.DEVNULL, process_group=0)
    try:
        yield
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _read_heard(path: Path, heard: list[Heard], stop: threading.Event) -> None:
    with path.open("rb") as file:
        left = b""
        while not stop.wait(0.2):
            *lines, left = (left + file.read()).split(b"\n")
            heard.extend(Heard(*json.loads(line)) for line in lines)


def main() -> None:
    """Play users from the command line; with --json, without end, a line for each answer."""
    made = argparse.ArgumentParser(prog="python -m lab.real._openai", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("url")
    made.add_argument("model")
    made.add_argument("--users", type=int, default=8)
    made.add_argument("--prompt", type=int, default=512)
    made.add_argument("--answer", type=int, default=128)
    made.add_argument("--seconds", type=float, default=20.0)
    made.add_argument("--settle", type=float, default=5.0)
    made.add_argument("--json", help=argparse.SUPPRESS)
    args = made.parse_args()
    if args.json:
        load = Load(*json.loads(args.json))
        heard_by_users(args.url, args.model, load, lambda a: print(json.dumps(a.as_heard()), flush=True))
        return
    load = Load(args.users, args.prompt, args.answer, args.seconds)
    print(json.dumps(load._asdict() | measure_load(args.url, args.model, load, args.settle)))


if __name__ == "__main__":
    main()

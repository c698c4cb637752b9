"""Records what a real vLLM answers, for `lab.replay`: before, during and after requests, with one streamed answer.

    vllm serve MODEL --port 8129 > vllm.log 2>&1 &
    python lab/record_vllm.py http://127.0.0.1:8129 --folder /where/MODEL/lies --log vllm.log -o tests/replay

The model's folder becomes /models/NAME, addresses become loopback; metrics of the process and the buckets of
histograms are left out. The scenes are the folders vllm (nothing asked yet), vllm_busy and vllm_after.
"""

import argparse
import json
import re
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

QUESTIONS = ("/version", "/v1/models", "/health", "/load", "/server_info?config_format=json")
TOKENS, MANY_TOKENS, REQUESTS = 96, 800, 12
STATISTICS_S = 12  # vLLM writes a line about its work every ten seconds
PROMPT = "the quick brown fox jumps over the lazy dog " * 8
LEFT_OUT = re.compile(r"^(# \w+ )?(python|process|http)_|_bucket\{|_created")

Recorded = dict[str, Any]


class Masks(NamedTuple):
    """What must not be kept: where the model lies, and where the server listens."""

    folder: str
    url: str

    def masked(self, text: str) -> str:
        """The text, fit to be published."""
        if self.folder:
            text = text.replace(self.folder, f"/models/{Path(self.folder).name}")
        text = text.replace(self.url, "http://127.0.0.1:8000").replace(self.url.rpartition(":")[2], "8000")
        text = re.sub(r"\b(?:\d{1,3}\.){3}\d{1,3}\b", "127.0.0.1", text)
        return re.sub(r"/\S*/site-packages/|/tmp/\S*", "/", text)


def asked(url: str, path: str) -> Recorded:
    """One answer, whatever its status."""
    try:
        with urllib.request.urlopen(url + path, timeout=10) as answer:
            status, body = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read().decode()
    recorded: Recorded = {"request": f"GET {path}", "status": status}
    try:
        return recorded | {"body": json.loads(body)}
    except ValueError:
        return recorded | {"text": body}


def metrics(url: str) -> Recorded:
    """/metrics without what is about the process, and without buckets."""
    answer = asked(url, "/metrics")
    lines = [line for line in answer["text"].splitlines() if not LEFT_OUT.search(line)]
    return {**answer, "text": "\n".join(lines) + "\n"}


def streamed(url: str, model: str, tokens: int = TOKENS) -> Recorded:
    """The lines of a streamed completion, each with the seconds since the one before."""
    body = {
        "model": model,
        "prompt": PROMPT,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode())
    request.add_header("content-type", "application/json")
    pieces, before = [], time.monotonic()
    with urllib.request.urlopen(request, timeout=120) as answer:
        for line in answer:
            now = time.monotonic()
            pieces.append({"after_s": round(now - before, 4), "line": line.decode().rstrip("\n")})
            before = now
    return {"request": "POST /v1/completions", "stream": pieces}


def scenes(url: str, model: str) -> dict[str, list[Recorded]]:
    """Three moments: nothing asked yet, several requests at work, and all done."""
    still = [asked(url, path) for path in QUESTIONS]
    idle = [*still, metrics(url), streamed(url, model)]
    workers = [threading.Thread(target=streamed, args=(url, model, MANY_TOKENS)) for _ in range(REQUESTS)]
    for worker in workers:
        worker.start()
    time.sleep(2)
    busy = [*still, metrics(url)]
    for worker in workers:
        worker.join()
    return {"vllm": idle, "vllm_busy": busy, "vllm_after": [*still, metrics(url)]}


def write(folder: Path, answers: list[Recorded], source: str, masks: Masks) -> None:
    """One file for each address."""
    folder.mkdir(parents=True, exist_ok=True)
    for answer in answers:
        name = re.sub(r"\W+", "_", answer["request"].partition("?")[0].partition(" ")[2]).strip("_")
        text = json.dumps({"request": answer["request"], "source": source, **answer}, indent=1)
        (folder / f"{name}.json").write_text(masks.masked(text) + "\n")


def main() -> None:
    """Record, mask, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--folder", default="", help="the model's folder on this machine, to be masked")
    parser.add_argument("--log", type=Path, help="the server's log, to be masked and kept beside the answers")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    masks = Masks(options.folder, options.url)
    version = asked(options.url, "/version")["body"]["version"]
    model = asked(options.url, "/v1/models")["body"]["data"][0]["id"]
    for name, answers in scenes(options.url, model).items():
        write(options.out / name, answers, f"recorded of vLLM {version} by lab/record_vllm.py", masks)
    if options.log:
        time.sleep(STATISTICS_S)
        (options.out / "vllm" / "server.log").write_text(masks.masked(options.log.read_text()))


if __name__ == "__main__":
    main()

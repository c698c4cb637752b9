"""What Ollama adds to its llama-server: answers through its API, from its child directly, and from a server alone.

python -m lab.ollama_cost --server FOLDER_OF_OLLAMA --models FOLDER MODEL...

The three are asked in turns, in another order each round, for the same number of tokens and without sampling, so that
only the way differs; the llama-server alone is started with the words that Ollama started its child with. The models
must be trained: Ollama gives an answer of thirty equal tokens up.
"""

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lab.faults import asking
from lab.faults.fault import Fault, Heard, Playing, Stage
from lab.faults.playing import Place, loaded, started
from lab.real._ollama import OllamaPlaying, ask, options, played, text

MEASURED = Path(__file__).parent / "data" / "ollama_cost.jsonl"
ROUNDS, ANSWER = 4, 64
PROMPTS = (16, 400)
GREEDY = {"temperature": 0.0, "top_k": 1}
Way = Callable[[str, int], Heard]


class Row(NamedTuple):
    """One answer."""

    model: str
    way: str
    round: int
    prompt: int
    first_token_s: float
    prompt_s: float
    tokens: int
    token_s: float
    """Between two tokens, by the clock of whoever asked."""


def child_of(playing: Playing) -> list[str]:
    """The command of the llama-server that Ollama started."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            words = path.with_name("cmdline").read_text().split("\0")[:-1]
        except OSError:
            continue
        if int(fields[1]) == playing.pid and words and words[0].endswith("llama-server"):
            return words
    raise OSError("Ollama has no llama-server")


@contextmanager
def ways(playing: OllamaPlaying, scratch: Path) -> Iterator[dict[str, Way]]:
    """How the model can be asked."""
    command = child_of(playing)
    port = command[command.index("--port") + 1]
    own = str(playing.port + 1)
    alone = [own if word == port else word for word in command]

    def through_ollama(prompt: str, tokens: int) -> Heard:
        return ask(playing.url, playing.name, {"prompt": prompt, **options(**GREEDY)}, tokens)

    def at(where: str) -> Way:
        return lambda prompt, tokens: asking.ask(f"http://127.0.0.1:{where}", prompt, tokens, **GREEDY)

    with started(alone, playing.environment, scratch / "alone.log") as server:
        if not loaded(server, f"http://127.0.0.1:{own}"):
            raise OSError("the llama-server alone did not load")
        yield {"ollama": through_ollama, "child": at(port), "alone": at(own)}


def rows_of(place: Place, model: str) -> Iterator[Row]:
    """Every answer, the ways in turns."""
    fault = Fault("cost", "", ("ollama",), model, Stage())
    with played(fault, fault.stage, place) as playing:
        assert isinstance(playing, OllamaPlaying)
        with ways(playing, place.scratch) as each:
            for way in each.values():
                way(text(PROMPTS[0]), 8)
            for turn in range(ROUNDS):
                names = list(each)
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    for prompt in PROMPTS:
                        heard = each[name](text(prompt), ANSWER)
                        gap = heard.seconds / max(1, heard.tokens - 1)
                        yield Row(model, name, turn, prompt, heard.first_token_s, heard.prompt_s, heard.tokens, gap)
                        time.sleep(0.1)


def beyond_prompt_s(row: Row) -> float:
    """Until the first token, without the time that the server says its prompt took."""
    return row.first_token_s - row.prompt_s


def read_rows(path: Path) -> list[Row]:
    """What was measured before."""
    return [Row(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]


def table(rows: list[Row]) -> str:
    """What Ollama adds for a token and for a request, as medians over the rounds."""
    lines = [f"{'model':20}{'context':>8}  {'beside':7}{'a token':>19}{'a first token':>16}"]
    for model in dict.fromkeys(row.model for row in rows):
        by = {(row.way, row.round, row.prompt): row for row in rows if row.model == model}
        for prompt in PROMPTS:
            for other in ("child", "alone"):
                pairs = [
                    (by["ollama", turn, prompt], row)
                    for (way, turn, length), row in by.items()
                    if (way, length) == (other, prompt)
                ]
                more = statistics.median(mine.token_s - theirs.token_s for mine, theirs in pairs) * 1e3
                times = statistics.median(mine.token_s / theirs.token_s for mine, theirs in pairs)
                first = statistics.median(beyond_prompt_s(mine) - beyond_prompt_s(theirs) for mine, theirs in pairs)
                token = f"{more:+.2f} ms (x {times:.2f})"
                lines.append(f"{model:20}{prompt:8}  {other:7}{token:>19}{first * 1e3:+13.1f} ms")
    return "\n".join(lines)


def main() -> None:
    """Measure and write."""
    made = argparse.ArgumentParser(prog="python -m lab.ollama_cost", description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("names", nargs="*", metavar="MODEL", help="none: show what --out holds")
    made.add_argument("--server", type=Path, default=Path())
    made.add_argument("--models", type=Path, default=Path())
    made.add_argument("--out", type=Path, default=MEASURED)
    made.add_argument("--port", type=int, default=8640)
    args = made.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended on the way out
    with tempfile.TemporaryDirectory(prefix="cost-") as scratch, args.out.open("a") as file:
        for model in args.names:
            for row in rows_of(Place(args.server, args.models, args.port, Path(scratch)), model):
                file.write(json.dumps(row._asdict()) + "\n")
                file.flush()
    print(table(read_rows(args.out)))


if __name__ == "__main__":
    main()

"""What MLX-LM prints: the speeds after `mlx_lm.generate`, and how far its server has read a prompt.

`Prompt: 12 tokens, 345.6 tokens-per-sec`, `Generation: 100 tokens, 45.1 tokens-per-sec`, `Peak memory: 4.2 GB`; the
server writes `2026-04-19 08:46:41,012 - INFO - Prompt processing progress: 2048/15806`, whose times tell its speed.
"""

import re
from collections import deque
from datetime import UTC, datetime
from statistics import median

from unslow.facts.run import Completion, Run
from unslow.facts.values import estimated_fact, reported_fact
from unslow.look.logs.dialect import LineDialect, NamedReader

_KEPT_RATES = 1000
_MOST_PROMPTS = 64
_NUMBER = r"(\d{1,9}(?:\.\d{1,6})?)"
_SPEED = re.compile(rf"(Prompt|Generation): (\d{{1,9}}) tokens, {_NUMBER} tokens-per-sec")
_MEMORY = re.compile(rf"Peak memory: {_NUMBER} GB")
_PROGRESS = re.compile(
    r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}),(\d{3}) - INFO - Prompt processing progress: (\d{1,9})/(\d{1,9})"
)


class MlxReader(NamedReader):
    """One pass over a text that holds lines of MLX-LM."""

    program = "MLX-LM"

    def __init__(self) -> None:
        super().__init__()
        self._prompt: tuple[int, float] = (0, 0.0)
        self._progress: dict[int, tuple[int, float]] = {}
        self._rates: deque[float] = deque(maxlen=_KEPT_RATES)
        self._rates_where = ""

    def recognise(self, line: str, where: str) -> bool:
        if found := _SPEED.search(line):
            tokens, tokens_per_s = int(found[2]), float(found[3])
            seconds = tokens / tokens_per_s if tokens_per_s else 0.0
            if found[1] == "Prompt":  # whose line comes first; both together are a request
                self._prompt = (tokens, seconds)
            elif tokens and seconds:
                read, read_s = self._prompt
                done = Completion(prompt_tokens=read, prefill_s=read_s, generated_tokens=tokens, decode_s=seconds)
                self.requests.append(done)
                self.requests_where, self._prompt = where, (0, 0.0)
        elif found := _PROGRESS.search(line):
            self._read_so_far(found, where)
        elif self.named and (found := _MEMORY.search(line)):  # others print such a line, too
            self.facts["resident_bytes"] = reported_fact(round(float(found[1]) * 1e9), where)
        else:
            return False
        return True

    def skip(self, needle: str, count: int) -> None:  # noqa: ARG002 (the contract of a reader)
        """Steps of a prompt that are not shown: the next one that is would be taken for a long one."""
        self._progress.clear()

    def run(self) -> Run:
        if self.requests or not self._rates:
            return super().run()
        return Run(prefill_tokens_per_s=estimated_fact(median(self._rates), self._rates_where))

    def _read_so_far(self, found: re.Match[str], where: str) -> None:
        """Two steps of one prompt tell a speed; prompts are told apart by their lengths."""
        try:
            moment = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:  # no calendar has it
            return
        at, tokens, whole = moment.timestamp() + int(found[2]) / 1000, int(found[3]), int(found[4])
        before = self._progress.get(whole)
        if before and tokens > before[0] and at > before[1]:
            self._rates.append((tokens - before[0]) / (at - before[1]))
            self._rates_where = where
        if len(self._progress) < _MOST_PROMPTS or whole in self._progress:
            self._progress[whole] = (tokens, at)


DIALECT = LineDialect(("tokens-per-sec", "Prompt processing progress: ", "Peak memory: "), MlxReader)

"""What KoboldCpp itself prints around the lines of llama.cpp: its version, its settings, and how each request went.

The line of a request has had four forms; all start with the context that it used and how much there is:
`ContextLimit: 614/2048, Processing:0.43s (5.5ms/T), Generation:3.62s (55.8ms/T), Total:4.06s (16.02T/s)` (2023),
`CtxLimit:56/4096, Amt:33/100, Init:0.00s, Process:1.92s (83.3ms/T = 12.01T/s), Generate:...` (2024),
`[01:03:39] CtxLimit:56/4096, Amt:33/100, Init:0.00s, Process:1.92s (12.01T/s), Generate:...` (2025), and
`[01:03:39] CtxLimit:56/4096, Init:0.00s, Processed:23 in 1.92s (12.01T/s), Generated:33/100 in 15.54s (...)` (2026).
"""

import re

from unslow.facts.run import Completion, Run
from unslow.facts.values import NOT_LOOKED, Known, reported_fact
from unslow.look.logs.dialect import LineDialect, NamedReader

_MOST_TOKENS = 10**8
_COUNT, _NUMBER = r"(\d{1,9})", r"(\d{1,9}(?:\.\d{1,6})?)"
_WELCOME = re.compile(r"Welcome to KoboldCpp - Version (\d[\w.]{0,20})")
_CONTEXT = re.compile(rf"(?:CtxLimit|ContextLimit): ?{_COUNT}/{_COUNT}")
_PART = re.compile(
    r"(Process|Generat)(?:ing|ed|ion|e)?: ?"
    rf"(?:{_COUNT}(?:/\d{{1,9}})? in )?{_NUMBER}s \((?:{_NUMBER}ms/T)?(?: = )?(?:{_NUMBER}T/s)?\)"
)
_AMOUNT = re.compile(rf"Amt: ?{_COUNT}/")
_THREADS = re.compile(r"\[Threads: (\d{1,4}), (?:BlasThreads|BatchThreads): (\d{1,4})")
_LAYERS = re.compile(r"Auto (?:Recommended|Selected) GPU Layers: (\d{1,4})")
_BENCHMARK = re.compile(rf"(ProcessingSpeed|GenerationSpeed): {_NUMBER}T/s")
_REFUSALS = ("GPU will not be used", "No GPU backend found", "Non-BLAS library will be used")


class KoboldReader(NamedReader):
    """One pass over a text that holds lines of KoboldCpp."""

    program = "KoboldCpp"

    def __init__(self) -> None:
        super().__init__()
        self._speeds: dict[str, Known[float]] = {}

    def recognise(self, line: str, where: str) -> bool:
        if self._request(line, where):
            return True
        if found := _WELCOME.search(line):
            self.__init__()  # type: ignore[misc]  # a server starts: what an earlier one did no longer holds
            self.facts["version"] = reported_fact(found[1], where)
        elif found := _THREADS.search(line):
            self.facts |= {
                "threads": reported_fact(int(found[1]), where),
                "threads_batch": reported_fact(int(found[2]), where),
            }
        elif found := _LAYERS.search(line):
            self.facts["gpu_layers_set"] = reported_fact(int(found[1]), where)
        elif found := _BENCHMARK.search(line):
            self._speeds[found[1]] = reported_fact(float(found[2]), where)
        elif any(words in line for words in _REFUSALS):
            self.facts["gpu_refused"] = reported_fact(line.strip()[:200], where)
        else:
            return False
        return True

    def run(self) -> Run:
        """Its requests as a measurement, else what a benchmark printed."""
        if self.requests:
            return super().run()
        return Run(
            decode_tokens_per_s=self._speeds.get("GenerationSpeed", NOT_LOOKED),
            prefill_tokens_per_s=self._speeds.get("ProcessingSpeed", NOT_LOOKED),
        )

    def _request(self, line: str, where: str) -> bool:
        context = _CONTEXT.search(line)
        parts = {found[1]: found for found in _PART.finditer(line)} if context else {}
        if context is None or len(parts) < 2:  # noqa: PLR2004 (the prompt and the answer)
            return False
        self.facts["context_length"] = reported_fact(int(context[2]), where)
        prompt, answer, amount = parts["Process"], parts["Generat"], _AMOUNT.search(line)
        read, generated = _tokens(prompt), int(amount[1]) if amount else _tokens(answer)
        if generated and read is not None and float(answer[3]) > 0:
            done = Completion(
                prompt_tokens=read,
                cached_tokens=max(0, int(context[1]) - read - generated),
                generated_tokens=generated,
                prefill_s=float(prompt[3]),
                decode_s=float(answer[3]),
            )
            self.requests.append(done)
            self.requests_where = where
        return True


def _tokens(part: re.Match[str]) -> int | None:
    """How many tokens: counted, or by the time that each took; older forms leave it at that."""
    _, counted, seconds, milliseconds, speed = part.groups()
    if counted:
        return int(counted)
    each_s = float(milliseconds) / 1000 if milliseconds else 0
    if not each_s and not speed:
        return None
    tokens = round(float(seconds) * float(speed)) if speed else round(float(seconds) / each_s)
    return tokens if tokens < _MOST_TOKENS else None


DIALECT = LineDialect(
    (
        "CtxLimit",
        "ContextLimit",
        "Welcome to KoboldCpp",
        "[Threads: ",
        "GPU Layers: ",
        "ProcessingSpeed: ",
        "GenerationSpeed: ",
        *_REFUSALS,
    ),
    KoboldReader,
)

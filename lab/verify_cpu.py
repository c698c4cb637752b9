"""`unslow verify` on this machine's processors: threads, batches and ways to load against llama-server's defaults.

    python -m lab.verify_cpu --server LLAMA_SERVER --model MODEL.gguf [--seconds N] [--only WORD]

Each change is held against the plain command at a short prompt and at one of 1K tokens. One line of JSON for each is
added to lab/data/verify_cpu.jsonl; `make docs` makes the table of docs/explanation/plan_results.md from it.
Random weights will do for speed, so answers are compared only with --answers, which needs a trained model.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unslow.commands.verify import VerifyRequest
from unslow.commands.verify.comparison import verify
from unslow.look.probes import read_machine
from unslow.look.system.live import LiveSystem
from unslow.think.stats.verification_report import FigureShown, VerifyReport

DATA = Path(__file__).parent / "data" / "verify_cpu.jsonl"
PROMPTS = (64, 1024)
CONTEXT = 2048
ANSWER = 64
TOO_MANY = 4
ENDLESS = 1e6
"""An interval that reaches so far is that of a single round."""


class Change(NamedTuple):
    """A change by its name, and what it adds to the plain command."""

    name: str
    flags: str
    plain: str = ""
    """What the plain command has instead, where that is not nothing."""


def changes(cores: int) -> Iterator[Change]:
    """The plans and the mistakes that are tried."""
    yield Change("nothing", "")
    yield Change("threads: as many as cores", f"-t {cores}")
    yield Change("threads: one", "-t 1")
    yield Change(f"threads: {TOO_MANY} times the cores", f"-t {TOO_MANY * cores}")
    yield Change("ubatch 512 to 2048", "-ub 2048 -b 2048")
    yield Change("ubatch 512 to 64", "-ub 64")
    yield Change("load: without mmap", "-lm none")
    yield Change("load: mlock", "-lm mlock")


class Shown:
    """Says what is being done to whoever waits."""

    def say(self, text: str) -> None:
        """A line."""
        sys.stderr.write(f"  {text}\n")

    def step(self, text: str, share: float) -> None:
        """Nothing: there are too many."""


def row_of(change: Change, prompt: int, report: VerifyReport) -> dict[str, Any]:
    """What is kept of one run."""
    figures = {figure.metric: msgspec.to_builtins(figure) for figure in report.figures}
    return {
        "change": change.name,
        "flags": change.flags,
        "prompt": prompt,
        "machine": report.machine,
        "server": report.before.runtime_version,
        "model": report.before.model,
        "verdict": report.verdict,
        "way": report.way,
        "figures": figures,
        "answers": report.answers.verdict,
        "notes": list(report.notes),
    }


def measured(arguments: argparse.Namespace, change: Change, prompt: int) -> VerifyReport:
    """One change at one length of a prompt."""
    line = f"{shlex.quote(arguments.server)} -m {shlex.quote(arguments.model)} -c {CONTEXT}"
    request = VerifyRequest(
        before=f"{line} {change.plain}",
        after=f"{line} {change.flags}",
        prompt=prompt,
        answer=ANSWER,
        seconds=arguments.seconds,
        no_answers=not arguments.answers,
    )
    report = verify(request, Shown())
    assert isinstance(report, VerifyReport)  # two sides give a report
    return report


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows for a page: the speed-up of each figure with its interval, and the verdict on the request."""
    if not rows:
        return "not measured yet"
    head = f"{'change':30}{'prompt':>7}  {'request':>24}  {'decode':>24}  {'prefill':>24}  verdict"
    lines = [head]
    for row in rows:
        cells = (
            _cell(row["figures"].get(name)) for name in ("request_s", "decode_tokens_per_s", "prefill_tokens_per_s")
        )
        lines.append(f"{row['change']:30}{row['prompt']:7}  {'  '.join(cells)}  {row['verdict']}")
    known = rows[-1]
    return "\n".join([*lines, "", f"{known['machine']}, llama-server {known['server']}, {known['model']}"])


def _cell(raw: dict[str, Any] | None) -> str:
    if raw is None:
        return f"{'-':>24}"
    speedup = msgspec.convert(raw, FigureShown).speedup
    likely = f"({speedup.low:.2f} to {speedup.high:.2f})" if speedup.high < ENDLESS else "(one round)"
    return f"{f'×{speedup.mid:.2f} {likely}':>24}"


def read_rows(path: Path = DATA) -> list[dict[str, Any]]:
    """What was measured last, one row for each change and prompt."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line]
    return list({(row["change"], row["prompt"]): row for row in rows}.values())


def main() -> None:
    """Measure all changes, or those that have a word in their name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default=os.environ.get("UNSLOW_LLAMA_SERVER", "llama-server"))
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--only", default="", help="changes with this word in their name")
    parser.add_argument("--prompts", type=int, nargs="+", default=PROMPTS)
    parser.add_argument("--answers", action="store_true", help="compare answers too")
    arguments = parser.parse_args()
    cores = read_machine(LiveSystem())[0].cpu.physical_cores.value_or(os.cpu_count() or 1)
    for change in changes(cores):
        if arguments.only not in change.name:
            continue
        for prompt in arguments.prompts:
            report = measured(arguments, change, prompt)
            sys.stdout.write(f"{change.name}, prompt {prompt}: {report.verdict}: {report.because}\n")
            sys.stdout.flush()
            with DATA.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row_of(change, prompt, report)) + "\n")
    sys.stdout.write(table(read_rows()) + "\n")


if __name__ == "__main__":
    main()

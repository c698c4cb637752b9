"""Write the two files of a new cause: the cause, and its test, which fails until the cause can tell two machines apart.

    make cause NAME=what_is_wrong

The name is the id and reads well after "slow because": `swapping`, `kv_cache_on_host`.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CAUSE = '''"""TODO: one sentence, what is wrong.

## Why it is slow
TODO: the mechanism, with the number that matters.

## How to confirm
TODO: the reading, log line or command that shows it.

## What it is not
TODO: the healthy machine that looks alike, and the cause next door.

## How to fix
On any runtime: TODO.

## Safety
TODO: whether answers change, and what else can.
"""

from unslow.facts.knob import Knob
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, all_of, finding

LEAST = 10**6  # TODO: the threshold, with its unit and its source; this one is never reached


def reading_against_threshold(case: CaseView) -> Found | Absent:
    """TODO: what is held against what."""
    value = case.need("runtime.compute.threads")  # TODO: the fact that decides, docs/reference/facts.md lists all
    if value < LEAST:
        return Absent(f"TODO: why that is fine ({value})")
    return finding(
        case,
        f"TODO: what is wrong, with the number ({value})",
        "runtime.compute.threads",
        fixes=[Knob.CAPACITY.to(None, "TODO: what to change")],
    )


CAUSE = Cause(
    title="TODO: a heading of a few words",
    phase="decode",
    needs=all_of("runtime.compute.threads"),  # TODO: "a or b" where either will do
    routes=(Route("counted", reading_against_threshold),),  # TODO: measured, log, counted or told,
    ask="TODO: {command_line}",  # a reading of catalog/readings in braces, or a command in backticks
)
'''
TEST = '''"""TODO: the first sentence of the cause."""

from answers import ask
from cases import gpu_case, with_facts

from unslow.facts.snapshot import Case
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Found
from unslow.think.judge.judge import judge

NAME = "{name}"


def fires() -> Case:  # other starts: cpu_case(), engines.vllm(), several_gpus.two_gpus(), told.pasted()
    """A machine with this cause and no other."""
    return with_facts(gpu_case(), {{"runtime.compute.threads": 2}})  # TODO: what is wrong here


def test_found_with_its_number():
    answer = ask(NAME, fires())
    assert isinstance(answer, Found)
    assert "2" in answer.because, "the number that shows it"
    assert "TODO" not in answer.because


def test_it_is_the_only_finding():
    assert [finding.cause for finding in judge(CaseView(fires())).findings] == [NAME]


def test_near_miss_is_ruled_out():
    answer = ask(NAME, with_facts(fires(), {{"runtime.compute.threads": 0}}))
    assert isinstance(answer, Absent)
'''


def main(name: str) -> int:
    """Write both files; neither may be there yet."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        return _refuse(f"NAME must be words in lower case with underscores (got {name!r}), as in NAME=what_is_wrong")
    files = {
        ROOT / "src/unslow/think/causes" / f"{name}.py": CAUSE,
        ROOT / "tests/think/causes" / f"test_{name}.py": TEST.format(name=name),
    }
    if there := [path for path in files if path.exists()]:
        return _refuse(f"{there[0].relative_to(ROOT)} exists already")
    for path, text in files.items():
        path.write_text(text, "utf-8")
        print(path.relative_to(ROOT))
    print(f"\nNext: replace each TODO until this passes:  .venv/bin/pytest -q tests/think/causes -k {name}")
    print("One of these tests wants a machine in tests/machines whose report names it: see CONTRIBUTING.md.")
    print("Then: python -m lab.cause_frequency; python -m tests.golden update; make docs")
    return 0


def _refuse(why: str) -> int:
    print(why, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))

"""Every guard of an alert is there for a near miss: without it a test of the rules fails."""

import re
import subprocess
from pathlib import Path

import pytest
from real_prometheus import promtool

from unslow.fleet.alerts import RULE_FILE
from unslow.fleet.dashboard import fleet_files

_RULE = re.compile(r"^(?=      - (?:alert|record): )", re.MULTILINE)
_GUARD = re.compile(r"^ {10}(?:and|unless) .*\n(?: {12}.*\n)*", re.MULTILINE)
TESTS = ("unslow.tests.yml", "unslow.long.tests.yml")


def _weaker() -> dict[str, str]:
    """The rules without one guard each, by its alert and the guard; of the findings, which are alike, one alert."""
    blocks, found = _RULE.split(fleet_files()[RULE_FILE]), {}
    for number, block in enumerate(blocks):
        name = re.match(r"      - alert: (\w+)", block)
        if name is None or ("unslow_finding{" in block and name[1] != "UnslowWeightsSpillToRam"):
            continue
        for guard in _GUARD.finditer(block):
            without = block[: guard.start()] + block[guard.end() :]
            key = f"{name[1]} {number} {guard[0].strip().splitlines()[0]}"
            found[key] = "".join([*blocks[:number], without, *blocks[number + 1 :]])
    return found


WEAKER = _weaker()


def test_guards_are_found_in_the_rules():
    assert len(WEAKER) > 20


@pytest.mark.real
@pytest.mark.parametrize("guard", WEAKER)
def test_a_rule_without_a_guard_fires_for_a_near_miss(guard: str, tmp_path: Path):
    program = promtool()
    for name in TESTS:
        (tmp_path / name).write_text(fleet_files()[name], "utf-8")
    (tmp_path / RULE_FILE).write_text(WEAKER[guard], "utf-8")
    done = [
        subprocess.run([program, "test", "rules", name], cwd=tmp_path, capture_output=True, timeout=120, check=False)
        for name in TESTS
    ]
    assert any(one.returncode for one in done)

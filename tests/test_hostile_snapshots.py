"""No number in a valid snapshot crashes the diagnosis or its output."""

import json
import random
from pathlib import Path

import pytest

from unslow.commands._command_lines import with_fix_commands
from unslow.commands._formats import render
from unslow.commands.diagnose.target import read_stored
from unslow.facts.errors import UserError
from unslow.facts.snapshot import dump_snapshot, parse_snapshot
from unslow.think.judge.judge import diagnose

MACHINES = Path(__file__).parent / "machines"
NAMES = ["spill_other_process_holds_vram", "healthy_moe", "kv_cache_allocation_fails", "cuda_hidden_threads_64"]
VALUES = [0, 1, 1e-320, 1e17, True, "[/]\x1b[31m", "", [], None]
EACH = 300
pytestmark = pytest.mark.no_cover  # many judgements of the same lines


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:5]):
            yield from leaves(inner, (*path, index))
    else:
        yield path


def changed(raw, path, value):
    copy = json.loads(json.dumps(raw))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(copy).encode()


@pytest.mark.parametrize("name", NAMES)
def test_any_value_at_any_path_is_diagnosed_and_shown(name):
    raw = json.loads(dump_snapshot(read_stored(str(MACHINES / f"h200_llama_server_{name}"))))
    places = [p for p in leaves(raw) if p[-1] not in ("source", "why", "how_to_get", "is", "origin", "absence")]
    chosen = random.Random(7)
    judged = 0
    for _ in range(EACH):
        path, value = chosen.choice(places), chosen.choice(VALUES)
        try:
            snapshot = parse_snapshot(changed(raw, path, value))
        except UserError:
            continue
        text = render(with_fix_commands(diagnose(snapshot), snapshot), "terminal", width=80, color=False)
        assert "\x1b" not in text, (path, value)
        judged += 1
    assert judged > EACH / 10


def test_zeros_and_tiny_numbers_are_diagnosed():
    folder = MACHINES / "h200_llama_server_spill_other_process_holds_vram"
    raw = json.loads(dump_snapshot(read_stored(str(folder))))
    numbers = [p for p in leaves(raw) if p[-1] == "value"]
    for path in numbers:
        for value in (0, 1e-320, 0.0):
            try:
                snapshot = parse_snapshot(changed(raw, path, value))
            except UserError:
                continue
            assert diagnose(snapshot).subjects, (path, value)

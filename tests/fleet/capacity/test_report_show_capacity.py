import json

import pytest

from unslow.facts.errors import UserError
from unslow.fleet.capacity.limits import UNSEEN
from unslow.fleet.capacity.report import CapacityReport, CapacityRow, CurvePoint, Goal, Step, render_capacity
from unslow.fleet.report import Statement
from unslow.think.report import Range


def users(low, mid, high):
    return Range(low=low, mid=mid, high=high)


def point(requests, speed, basis="measured"):
    return CurvePoint(requests=requests, tokens_per_s=users(speed - 1, speed, speed + 1), basis=basis, samples=9)


def row(**more):
    given = {
        "runtime": "vLLM", "model": "meta-llama/Llama-3.3-70B-Instruct", "devices": "4 x NVIDIA H100 80GB HBM3",
        "instances": 12, "gpus": 48, "users_now": 310.4, "users_peak": 702.0, "users_at_goal": users(600, 768, 900),
        "basis": "measured", "limit": "speed of each", "points": tuple(point(float(n), 90.0 - n) for n in range(1, 30)),
        "next": (Step(what="one more instance on 4 GPUs", gpus=4, users=users(50, 64, 75), basis="measured"),),
    }  # fmt: skip
    return CapacityRow(**given | more)


SIMULATED = row(
    model="qwen3-8b", devices="NVIDIA L4", instances=1, gpus=1, basis="simulated", limit="KV cache",
    because="2.0 times the highest load seen", users_at_goal=users(20, 32, 40), users_now=2.25, users_peak=8.0,
    points=(point(1.0, 50.0), point(8.0, 40.0), point(32.0, 21.0, "simulated")),
    next=(
        Step(what="one more instance on 1 GPU", gpus=1, users=users(20, 32, 40), basis="simulated"),
        Step(
            what="an instance over 2 GPUs instead of 1", gpus=1, users=users(10, 25, 50), basis="simulated",
            because="by physics",
        ),
    ),
)  # fmt: skip
UNTOLD = row(
    model="tiny", runtime="llama.cpp", devices="", basis="cannot_tell", limit="", points=(), next=(), gpus=None,
    users_at_goal=None, because="nobody was answered",
)  # fmt: skip


def report(*rows, **more):
    given = {
        "unslow_version": "1", "prometheus": "http://127.0.0.1:9090", "taken_at": "", "span_s": 86400.0, "queries": 40,
        "seconds": 2.5, "complete": True, "goal": Goal(tokens_per_s=20.0, first_token_s=2.0), "rows": rows,
    }  # fmt: skip
    return CapacityReport(**given | more)


def shown(*rows, form="terminal", width=80, **more):
    return render_capacity(report(*rows, **more), form, width=width, color=False)


def test_the_table_fits_80_columns_and_no_number_is_cut():
    text = shown(row(), SIMULATED, UNTOLD)
    assert max(map(len, text.splitlines())) <= 80
    [line] = [line for line in text.splitlines() if line.startswith("qwen3-8b  ")]
    assert line.split()[1:] == ["L4", "1", "2.2/8", "~32", "cache", "~+32", "(1)"]
    assert " 310/702 " in text
    assert " 768 " in text
    assert "+64 (4)" in text


def test_simulated_values_are_marked(wording):
    text = shown(row(), SIMULATED, width=110)
    assert text.startswith(" ~800 USERS ")
    assert shown(row()).startswith(" 768 USERS ")
    assert "600-900" in text
    assert "1: 50.0, 8: 40.0, ~32: 21.0" in text
    wording(" ".join(text.split("\n\n")[-1].split()), tells="~")


def test_long_curve_is_thinned_keeping_both_ends():
    [line] = [line for line in shown(row(), width=160).splitlines() if "tok/s per request, by" in line]
    assert "1: 89.0, 2: 88.0, 3: 87.0, 4: 86.0, 7: 83.0, 11: 79.0, 18: 72.0, 29: 61.0" in line


def test_undetermined_capacity_states_the_reason(wording):
    text = shown(UNTOLD)
    assert text.startswith(" CANNOT TELL ")
    assert UNTOLD.because in text
    wording(shown().splitlines()[0])
    wording(shown(SIMULATED, UNTOLD, width=118).splitlines()[0], tells="1 group")


def test_unlimited_capacity_is_shown_with_a_plus():
    assert "~32+" in shown(row(limit=UNSEEN, basis="simulated", users_at_goal=users(20, 32, 32)))


def test_goal_next_steps_and_statements_are_shown(wording):
    said = Statement(kind="limit", text="3 moments were read", hint="--span less time")
    text = shown(SIMULATED, statements=(said,))
    wording(text, about="20 tok/s", tells="2 s")
    wording(text, about="--span")
    wording(shown(SIMULATED, width=120), about="over 2 GPUs", tells=("~+25", "+10", "+50"))


def test_step_without_gain_says_no_more_users(wording):
    step = Step(what="an instance over 2 GPUs", gpus=1, users=users(0, 0, 0), basis="simulated", because="by physics")
    text = shown(row(next=(SIMULATED.next[0], step)))
    wording(text, about="over 2 GPUs")
    assert "+0" not in text


def test_statement_is_indented_and_names_a_few_instances():
    said = Statement(kind="missing", text="nothing is known of " + "much " * 20, instances=9, such_as=("gpu-1",))
    text = shown(SIMULATED, statements=(said,), width=60)
    assert "(9 instances: gpu-1, ...)" in " ".join(text.split())
    assert all(line.startswith("  ") for line in text.split("! ")[1].splitlines()[1:2])


def test_many_groups_are_truncated_with_a_pointer_to_json(wording):
    text = shown(*[SIMULATED] * 60)
    wording(text, about="20 more groups")
    assert len(json.loads(shown(*[SIMULATED] * 60, form="json"))["rows"]) == 60


def test_markdown_has_the_table_and_escapes_names():
    text = shown(row(model="evil|<b>@name"), SIMULATED, form="markdown")
    assert "| qwen3-8b | vLLM | L4 | 1 | 2.2/8 | ~32 | 20-40 | cache | ~+32 (1) |" in text
    assert "<b>" not in text
    assert "&#124;" in text
    assert "### ~800 USERS" in text


def test_terminal_escapes_in_names_are_removed():
    assert "\x1b" not in shown(row(model="a\x1b[31mb"))


def test_unknown_format_is_refused():
    render_capacity.check_format("markdown")
    with pytest.raises(UserError, match="no format 'html'"):
        render_capacity.check_format("html")

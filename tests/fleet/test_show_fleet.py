"""The fleet report: limitations first, then losses and causes, in eighty columns and in a pipe."""

import json
import subprocess

import msgspec
import pytest
from judged_fleets import HEAD, PREEMPTS, QUEUE, alike, judged, slowed
from real_prometheus import promtool

from unslow.facts.errors import UserError
from unslow.fleet.report import Instance, Judgement, Loss, Statement
from unslow.fleet.show import render_fleet
from unslow.fleet.summary import fleet_of

PARTIAL = Statement(kind="partial", text="2 of 31 queries were answered in part", hint="ask the store", instances=120)
SKEW = Statement(kind="skew", text="the clock of the server is 90 s behind")
NOTE = Statement(kind="note", text="12 series have no `model_name`")
HOSTILE = "x\x1b[31m\u202eevil|`<b>@someone"


def report(*more, **head):
    fleet = alike(12)
    fleet[3] = slowed(fleet[3], 0.5, **{"machine.gpus.0.power_limit_w": 250.0})
    fleet += [judged(QUEUE, "prod/queue"), judged(PREEMPTS, "prod/preempts"), *more]
    return fleet_of(fleet, msgspec.structs.replace(HEAD, **head))


def shown(form="terminal", width=80, *more, **head):
    return render_fleet(report(*more, **head), form, width=width, color=False)


def untold(key, why):
    instance = Instance(key=key, runtime="vLLM", model="m", verdict="cannot_tell", summary="s", lost=Loss(because=why))
    return Judgement(instance, {})


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal_but_the_command_to_copy(width):
    lines = shown("terminal", width, statements=(PARTIAL, SKEW, NOTE), complete=False).splitlines()
    wide = [line for line in lines if len(line) > width]
    assert all(line.lstrip().startswith("unslow fleet") for line in wide)


def test_urgent_statements_come_first(wording):
    text = shown(statements=(NOTE, SKEW, PARTIAL), complete=False)
    wording(text, about="2 of 31", tells="120")
    assert text.index("ask the store") < text.index("90 s behind") < text.index("14 instances")
    assert text.index("12 series") > text.index("Largest losses")
    wording(shown("terminal", 160, statements=(PARTIAL,), complete=False), about="31 queries,")


def test_instance_count_in_a_statement_is_not_repeated():
    seven = Statement(kind="labels", text="7 engines don't say which model they serve", instances=7)
    assert "serve\n" in shown(statements=(seven,))


def test_headline_counts_verdicts_and_sums_losses(wording):
    facts = ("12 normal", "2 slow", "2,310 tok/s", "34.8 GPU-hours")
    wording(shown("terminal", 120), about="14 instances", tells=facts)


def test_report_shows_causes_instances_fixes_and_odd_ones(wording):
    text = wording(shown(), tells=("1. prod/preempts", "1,257 tok/s", "460 tok/s", "17.6 GPU-hours", "450 W"))
    said = " ".join(text.split())
    assert "unslow fleet --prometheus http://127.0.0.1:9090 --instance prod/preempts" in said


def test_cause_names_are_not_cut_at_eighty_columns():
    assert all(f"{one.title} " in shown() for one in report().causes)
    assert "WORST ON" in shown("terminal", 120)
    assert "WORST ON" not in shown("terminal", 60)


def test_top_limits_instances_and_says_so():
    few = render_fleet(report(), "terminal", width=80, color=False, top=1)
    assert "1 of 2" in few
    assert "2. prod" not in few
    everything = render_fleet(report(), "terminal", width=80, color=False, top=1, everything=True)
    assert "2. prod/queue" in everything


def test_reasons_for_undetermined_instances_are_counted(wording):
    said = shown("terminal", 80, untold("a", "no GPU exporter"), untold("b", "no GPU exporter"))
    assert "2: no GPU exporter" in said
    wording(said, about="16 instances")


def test_a_healthy_fleet_is_short():
    text = render_fleet(fleet_of(alike(6), HEAD), "terminal", width=80, color=False)
    assert "NORMAL" in text
    assert "nothing lost" in text
    assert "Largest losses" not in text


def test_empty_fleet_is_stated():
    text = render_fleet(fleet_of([], HEAD), "terminal", width=80, color=False)
    assert "CANNOT TELL" in text
    assert "no instances" in text


def test_hostile_names_are_escaped_in_terminal_and_markdown():
    base = judged(QUEUE)
    hostile = Judgement(msgspec.structs.replace(base.instance, key=HOSTILE, model=HOSTILE, lost_by={HOSTILE: 9.0}), {})
    terminal, page = (shown(form, 80, hostile) for form in ("terminal", "markdown"))
    assert "\x1b" not in terminal + page
    assert "\u202e" not in terminal + page
    assert "<b>" not in page
    assert "@someone" not in page
    assert all(line.count("|") - line.count("\\|") == 6 for line in page.splitlines() if line.startswith("| "))


def test_suggested_command_quotes_any_key():
    base = judged(QUEUE)
    odd = Judgement(msgspec.structs.replace(base.instance, key="a; rm -rf $HOME"), {})
    text = render_fleet(fleet_of([odd], HEAD), "terminal", width=80, color=False)
    assert text.rstrip().endswith("--instance 'a; rm -rf $HOME'")


def test_colors_appear_only_when_requested():
    assert "\x1b[" in render_fleet(report(), "terminal", width=80, color=True)
    assert "\x1b[" not in shown()


def test_markdown_report_is_complete(wording):
    page = shown("markdown", 80, statements=(PARTIAL, NOTE))
    wording(page, tells=("### 14 instances", "| 1 | 1,257 | 17.6 | prod/preempts |", "1. **prod/preempts**", "250 W"))
    assert page.startswith("> **2 of 31 queries")


def test_json_has_every_instance():
    read = json.loads(shown("json"))
    assert read["schema"] == "unslow.fleet/1"
    assert len(read["instances"]) == 14
    assert read["instances"][0]["lost"]["tokens_per_s"] > 900


def test_metrics_have_no_series_per_instance():
    lines = shown("openmetrics").splitlines()
    assert 'unslow_fleet_instances{verdict="slow"} 2' in lines
    assert 'unslow_fleet_cause_instances{cause="kv_cache_preemption"} 1' in lines
    assert "unslow_fleet_odd_instances 2" in lines
    assert lines[-1] == "# EOF"
    assert not any("prod/" in line for line in lines)


def test_promtool_accepts_the_fleet_metrics():
    text = shown("openmetrics") + "\n"
    done = subprocess.run([promtool(), "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_unknown_format_is_refused():
    with pytest.raises(UserError, match="html"):
        render_fleet(report(), "html", width=80, color=False)
    assert set(render_fleet.formats) == {"terminal", "json", "markdown", "openmetrics"}


def idle(key):
    lost = Loss(tokens_per_s=0.0, gpu_hours=0.0, idle_gpu_hours=0.25, because="nobody asked it anything in the window")
    one = Instance(key=key, runtime="vLLM", model="m", verdict="cannot_tell", summary="s", gpus=1, lost=lost)
    return Judgement(one, {})


def test_fleet_without_requests_is_idle(wording):
    text = render_fleet(fleet_of([idle("a"), idle("b")], HEAD), "terminal", width=100, color=False)
    wording(text, tells=("100%", "48.0"))
    assert "undetermined" not in text
    assert "Why some" not in text


def test_idle_instances_are_counted_apart_from_undetermined(wording):
    said = shown("terminal", 80, idle("a"), untold("b", "no size"))
    wording(said, about="16 instances", tells=("12 normal", "2 slow", "1 idle"))
    assert "1: no size" in said


def test_single_instance_has_no_plural():
    text = render_fleet(fleet_of(alike(1), HEAD), "terminal", width=80, color=False)
    assert "Total " in text
    assert "GPU-hours" not in text


def test_empty_fleet_shows_no_speed():
    for form in ("terminal", "markdown"):
        assert "tok/s" not in render_fleet(fleet_of([], HEAD), form, width=80, color=False)


def test_statement_names_a_few_instances_and_a_hint(wording):
    said = Statement(
        kind="labels", text="7 engines say no model", hint="label them", instances=7, such_as=("a:1", "b:1")
    )
    below, without = (shown(statements=(one,)).partition("450 W")[2] for one in (said, NOTE))
    wording(below, tells="7 engines say no model (a:1, b:1, ...)\n    label them")
    wording(without)


def test_hostile_names_in_statements_are_escaped():
    said = Statement(kind="labels", text="1 engine says none", instances=1, such_as=(HOSTILE,))
    assert "<b>" not in shown("markdown", 80, statements=(said,))
    assert "@someone" not in shown("markdown", 80, statements=(said,))


def test_peer_difference_is_shown_once_at_its_instance(wording):
    fleet = alike(12)
    hot = slowed(fleet[3], 0.5, **{"machine.gpus.0.power_limit_w": 250.0})
    slow = msgspec.structs.replace(hot.instance, verdict="slow", lost=Loss(tokens_per_s=9.0))
    fleet[3], fleet[5] = (Judgement(slow, hot.facts), slowed(fleet[5], 0.5, **{"machine.gpus.0.power_limit_w": 240.0}))
    for form in ("terminal", "markdown"):
        text = render_fleet(fleet_of(fleet, HEAD), form, width=90, color=False)
        wording(text)
        said = " ".join(text.split())
        assert said.count("power limit 250 W") == said.count("power limit 240 W") == 1
        assert said.index("250 W") < said.index("240 W")


def test_unexplained_slow_instance_suggests_running_unslow_there(wording):
    base = judged(QUEUE)
    bare = Judgement(msgspec.structs.replace(base.instance, findings=(), by_itself=()), {})
    for form in ("terminal", "markdown"):
        wording(render_fleet(fleet_of([bare], HEAD), form, width=200, color=False), about="`unslow`")


@pytest.mark.parametrize(("tokens", "said"), [(None, "Total throughput unknown"), (0.0, "Total 0 tok/s")])
def test_unknown_throughput_is_not_shown_as_zero(tokens, said):
    unasked = [untold(name, "query failed: work").instance for name in ("a", "b")]
    fleet = [Judgement(msgspec.structs.replace(one, tokens_per_s=tokens), {}) for one in unasked]
    whole = fleet_of(fleet, HEAD)
    assert said in " ".join(render_fleet(whole, "terminal", width=80, color=False).split())
    told = render_fleet(whole, "openmetrics", width=80, color=False)
    assert ("\nunslow_fleet_tokens_per_second " in told) is (tokens is not None)
    assert "\nunslow_fleet_gpus " not in told

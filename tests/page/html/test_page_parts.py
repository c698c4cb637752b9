"""The parts of the page: bars of speed and of time, findings, checklists, what is open."""

import re

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from page_samples import Parsed, change, subject

from unslow.page.html import speed as change_panel
from unslow.page.html.diagnosis import (
    checklist,
    contradictions,
    findings,
    render_verdict,
    ruled_out,
    understood,
    untold,
)
from unslow.page.html.markup import lines_to_copy
from unslow.page.html.speed import budgets, speeds
from unslow.page.view import SpeedRow
from unslow.show.labels import label
from unslow.think.judge.budget import UNEXPLAINED
from unslow.think.report import BudgetPart, ChecklistItem, Contradicted, Evidence, Question, Range, RuledOut, Untold

NUMBERS = st.one_of(st.none(), st.floats(0, 1e9))
THREE = st.lists(st.floats(0, 1e9), min_size=3, max_size=3).map(sorted)
RANGES = st.one_of(st.none(), THREE.map(lambda ends: Range(low=ends[0], mid=ends[1], high=ends[2])))


def percents(html: str, name: str) -> list[float]:
    return [float(found) for found in re.findall(rf' {name}="([-\d.]+)%"', html)]


@example(measured=None, ceiling=0.0, goal=5e-324, now=None, best=None)
@given(measured=NUMBERS, ceiling=NUMBERS, goal=NUMBERS, now=RANGES, best=RANGES)
def test_every_mark_of_a_bar_is_inside_it(measured, ceiling, goal, now, best):
    row = SpeedRow(
        metric="decode_tokens_per_s", measured=measured, ceiling=ceiling, goal=goal, as_configured=now, achievable=best
    )
    html = speeds([row])
    assert all(0 <= place <= 100 for name in ("x", "x1", "x2") for place in percents(html, name))
    assert all(width <= 100 for width in percents(html, "width"))
    assert not Parsed(html).broken


def test_a_bar_shows_what_is_measured_against_what_is_possible(wording):
    best = Range(low=180, mid=232, high=300)
    row = SpeedRow(metric="decode_tokens_per_s", measured=16, achievable=best, ceiling=1038)
    html = speeds([row])
    said = Parsed(html).all("svg")[0]["aria-label"]
    wording(said, tells=("16.0 tok/s", "180", "300 tok/s"))
    wording(Parsed(html).texts, tells="1.5%")
    _, _, band, measured = percents(html, "width")
    assert measured == pytest.approx(100 * 16 / (1038 * 1.03), abs=0.01)
    assert band == pytest.approx(100 * 120 / (1038 * 1.03), abs=0.01)


def test_a_ceiling_that_is_far_off_does_not_shrink_the_bar(wording):
    row = SpeedRow(
        metric="prefill_tokens_per_s", measured=129, as_configured=Range(low=200, mid=300, high=400), ceiling=1e5
    )
    html = speeds([row])
    wording(Parsed(html).texts)
    assert "mark-ceiling" not in html
    assert percents(html, "width")[-1] > 20


def test_one_number_alone_needs_no_bar(wording):
    html = speeds([SpeedRow(metric="time_to_first_token_s", measured=0.282)])
    assert "<svg" not in html
    wording(Parsed(html).texts, tells="282 ms")
    far = speeds([SpeedRow(metric="prefill_tokens_per_s", measured=405, ceiling=136520)])
    assert "<svg" not in far  # it would be full, as if all were reached
    assert "0.3%" in far


def parts(**seconds: float) -> tuple[BudgetPart, ...]:
    return tuple(
        BudgetPart(phase="decode", part=n.replace("_", " "), seconds=s, per="token") for n, s in seconds.items()
    )


def test_a_budget_adds_up_and_shows_what_is_unexplained(wording):
    html = budgets(parts(reads=0.03, **{UNEXPLAINED: 0.01}), ())
    assert percents(html, "width") == [100.0, 75.0, 25.0, 25.0]
    wording(re.search(r"<h4>(.*?)</h4>", html)[1], tells="40 ms")
    assert 'fill="url(#hatch)"' in html
    assert "<title>unexplained: 10 ms</title>" in html
    assert "25%" in html


def test_what_a_found_cause_takes_stands_out():
    found = subject("gpu_thermal_throttling").findings
    html = budgets(parts(reads=0.03, the_GPU_is_throttled_by_heat=0.01), found)
    assert 'class="part lost"' in html


def test_one_part_alone_is_said_in_words(wording):
    wording(re.search(r"<p>(.*?)</p>", budgets(parts(reads=0.03), ()))[1], tells="reads")


def test_a_finding_has_its_price_its_evidence_and_a_button_on_each_command():
    found = subject().findings[0]
    fix = msgspec.structs.replace(found.fixes[0], commands=("remove -ngl 20", "llama-server -m x.gguf"))
    html = findings(msgspec.structs.replace(subject(), findings=(msgspec.structs.replace(found, fixes=(fix,)),)))
    read = Parsed(html)
    assert {found.title, label("runtime.gpu_layers_set")} <= set(read.texts)
    assert f"{found.speedup:.1f}×" in html
    commands = [a["data-copy"] for a in read.all("button", class_="copy")]
    assert commands == ["llama-server -m x.gguf"]
    assert "remove <code>-ngl 20</code>" in html
    assert "unslow explain gpu_layers_set_too_low" in read.texts


def test_what_follows_stands_under_its_cause(wording):
    html = findings(subject("other_process_holds_vram"))
    wording(re.search(r'class="links"><li><p><b>(.*?)</b>', html)[1])
    assert html.count('<ol class="findings">') == 1
    assert 'aria-hidden="true">2</span>' not in html


def test_nothing_found_is_said_by_the_verdict(wording):
    fine = msgspec.structs.replace(subject(), findings=(), verdict="normal")
    for verdict in ("normal", "slow", "failed", "cannot_tell"):
        wording(findings(msgspec.structs.replace(fine, verdict=verdict)))


def test_lines_that_belong_elsewhere_say_where(wording):
    html = lines_to_copy(["in the Modelfile: PARAMETER num_ctx 8192", "by hand: clean the fan", "ollama serve"])
    read = Parsed(html)
    assert [a["data-copy"] for a in read.all("button")] == ["PARAMETER num_ctx 8192", "ollama serve"]
    wording(read.texts, tells=("Modelfile", "clean the fan"))


def test_a_checklist_says_its_marks_in_words():
    read = Parsed(checklist(subject().checklist))
    assert "No: " in read.texts
    assert all(a.get("aria-hidden") == "true" for a in read.all("span", class_="mark"))


def test_questions_about_a_gpu_that_is_not_there_are_one(wording):
    items = [ChecklistItem(item=f"Is {n} fine?", state="unknown", because="there is no GPU") for n in range(5)]
    read = Parsed(checklist([*items, ChecklistItem(item="Is it fast?", state="ok", because="yes")]))
    assert len(read.all("li")) == 2
    wording(read.texts, tells="5")
    wording(Parsed(checklist(items[:1])).texts)


def test_what_is_open_says_how_to_find_out(wording):
    items = (
        Untold(cause="a_b", missing="the log", because="nobody looked", how_to_get="run `x`", suspected=True),
        Untold(cause="c_d", missing="the clock", because="no driver", how_to_get=""),
    )
    shown = msgspec.structs.replace(
        subject(), cannot_tell=items, ask_next=(Question(command="nvidia-smi -q", why="shows the clocks"),)
    )
    html = untold(shown)
    assert 'data-copy="nvidia-smi -q"' in html
    assert "run <code>x</code>" in html
    wording(Parsed(html).texts, tells=("1 cause ", "the clock"))


def test_a_page_with_buttons_says_which_to_press(wording):
    how = "run `unslow` while the runtime is idle, without --passive"
    item = Untold(cause="a_b", missing="speed", because="not measured", how_to_get=how)
    question = Question(command="unslow http://127.0.0.1:8080", why="measures it")
    shown = msgspec.structs.replace(subject(), cannot_tell=(item,), ask_next=(question,))
    html = untold(shown, {"diagnose": "Measure"})
    wording(Parsed(html).texts, tells="Measure")
    assert html.count("ress Measure") == 2
    assert "unslow" not in html
    assert html.count("unslow") < untold(shown).count("unslow")


def test_what_to_do_next_stands_on_a_line_of_its_own(wording):
    shown = msgspec.structs.replace(subject(), summary="It is 9 tok/s. Slow because of a thing. First: close it.")
    html = render_verdict(shown, 0)
    assert '<p class="lead">Slow because of a thing.</p>' in html
    wording(re.search(r'<p class="next"><b>(.*?)</b>close it.</p>', html)[1])
    unknown = "It can't be told: no speed was measured. To find out: run `unslow` while the runtime is idle, "
    shown = msgspec.structs.replace(subject(), summary=f"{unknown}without --passive.")
    html = render_verdict(shown, 0, {"diagnose": "Measure"})
    wording(re.search(r'<p class="next">(.*?)</p>', html)[1], tells="Measure")
    assert "<code>unslow</code>" in render_verdict(shown, 0)


def test_a_flag_that_has_to_go_is_named_and_not_copied():
    html = lines_to_copy(["remove -fit/-ngl/-c"])
    assert html == '<p class="by-hand">remove <code>-fit/-ngl/-c</code></p>'


def test_ruled_out_is_folded(wording):
    html = ruled_out([RuledOut(cause="eager_mode", because="graphs are on")] * 3)
    wording(re.match(r"<details><summary>(.*?)</summary>", html)[1], tells="3")
    assert "eager mode" in html


def test_contradictions_and_what_was_understood(wording):
    html = contradictions(
        [Contradicted(about="layers", says=("33 in the log", "20 in the command"), meaning="one is old")]
    )
    wording(Parsed(html).texts, tells=("33 in the log", "20 in the command"))
    known = Evidence(fact="model.name", value="x", reference=None, origin="told", source="line 3")
    wording(Parsed(understood([known])).texts, tells="line 3")


def test_before_and_after(wording):
    html = change_panel.render_change(change(), 0)
    wording(Parsed(html).texts, tells=("×12.20", "16.0 tok/s", "unslow verify"))
    once = msgspec.structs.replace(change().rows[0].speedup, high=1e9)
    row = msgspec.structs.replace(change().rows[0], speedup=once)
    html = change_panel.render_change(msgspec.structs.replace(change(), rows=(row,)), 0)
    wording(re.search(r"×12.20</b><small>(.*?)</small>", html)[1])


@pytest.mark.parametrize(
    ("summary", "first"),
    [
        ("It runs Llama 3.1 8B at 16.5 tok/s. Slow because of x.", "It runs Llama 3.1 8B at 16.5 tok/s."),
        ("It does not load: out of memory", "It does not load: out of memory"),
    ],
)
def test_the_headline_is_the_first_sentence(summary, first):
    html = render_verdict(msgspec.structs.replace(subject(), summary=summary), 0)
    assert re.search(r"<h2[^>]*>([^<]*)</h2>", html)[1] == first


def test_what_differs_is_named_as_a_person_does():
    changes = ("runtime.kv_type_k: f16 → q8_0", "threads of the CPU: 8 → 4", "-ngl 20 → not set")
    html = change_panel.render_change(msgspec.structs.replace(change(), changes=changes), 0)
    for said in (f"{label('runtime.kv_type_k')}: f16 → q8_0", *changes[1:]):
        assert f"<li>{said}</li>" in html

"""The parts of the page: speed bars, time budgets, findings, checklists, undetermined causes."""

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
    ruled_out_causes,
    text_facts,
    undetermined_causes,
)
from unslow.page.html.markup import lines_to_copy
from unslow.page.html.speed import budgets, speeds
from unslow.page.view import SpeedRow
from unslow.show.units import label
from unslow.think.judge.pricing import UNEXPLAINED
from unslow.think.report import (
    BudgetPart,
    ChecklistItem,
    ContradictionShown,
    Evidence,
    Question,
    Range,
    RuledOut,
    Untold,
)

NUMBERS = st.one_of(st.none(), st.floats(0, 1e9))
THREE = st.lists(st.floats(0, 1e9), min_size=3, max_size=3).map(sorted)
RANGES = st.one_of(st.none(), THREE.map(lambda ends: Range(low=ends[0], mid=ends[1], high=ends[2])))


def percents(html: str, name: str) -> list[float]:
    return [float(found) for found in re.findall(rf' {name}="([-\d.]+)%"', html)]


@example(measured=None, ceiling=0.0, goal=5e-324, now=None, best=None)
@given(measured=NUMBERS, ceiling=NUMBERS, goal=NUMBERS, now=RANGES, best=RANGES)
def test_marks_of_a_speed_bar_stay_inside(measured, ceiling, goal, now, best):
    row = SpeedRow(
        metric="decode_tokens_per_s", measured=measured, ceiling=ceiling, goal=goal, as_configured=now, achievable=best
    )
    html = speeds([row])
    assert all(0 <= place <= 100 for name in ("x", "x1", "x2") for place in percents(html, name))
    assert all(width <= 100 for width in percents(html, "width"))
    assert not Parsed(html).broken


def test_speed_bar_shows_measured_against_achievable_and_ceiling(wording):
    best = Range(low=180, mid=232, high=300)
    row = SpeedRow(metric="decode_tokens_per_s", measured=16, achievable=best, ceiling=1038)
    html = speeds([row])
    said = Parsed(html).all("svg")[0]["aria-label"]
    wording(said, tells=("16.0 tok/s", "180", "300 tok/s"))
    wording(Parsed(html).texts, tells="1.5%")
    _, _, band, measured = percents(html, "width")
    assert measured == pytest.approx(100 * 16 / (1038 * 1.03), abs=0.01)
    assert band == pytest.approx(100 * 120 / (1038 * 1.03), abs=0.01)


def test_distant_ceiling_does_not_shrink_the_speed_bar(wording):
    row = SpeedRow(
        metric="prefill_tokens_per_s", measured=129, as_configured=Range(low=200, mid=300, high=400), ceiling=1e5
    )
    html = speeds([row])
    wording(Parsed(html).texts)
    assert "mark-ceiling" not in html
    assert percents(html, "width")[-1] > 20


def test_single_value_has_no_speed_bar(wording):
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


def test_budget_adds_up_and_hatches_the_unexplained_part(wording):
    html = budgets(parts(reads=0.03, **{UNEXPLAINED: 0.01}), ())
    assert percents(html, "width") == [100.0, 75.0, 25.0, 25.0]
    wording(re.search(r"<h4>(.*?)</h4>", html)[1], tells="40 ms")
    assert 'fill="url(#hatch)"' in html
    assert "<title>unexplained: 10 ms</title>" in html
    assert "25%" in html


def test_budget_part_of_a_found_cause_is_highlighted():
    found = subject("gpu_thermal_throttling").findings
    html = budgets(parts(reads=0.03, the_GPU_is_throttled_by_heat=0.01), found)
    assert 'class="part lost"' in html


def test_budget_of_one_part_is_a_sentence(wording):
    wording(re.search(r"<p>(.*?)</p>", budgets(parts(reads=0.03), ()))[1], tells="reads")


def test_finding_has_its_cost_evidence_and_a_copy_button_per_command():
    found = subject().findings[0]
    fix = msgspec.structs.replace(found.fixes[0], commands=("remove -ngl 20", "llama-server -m x.gguf"))
    html = findings(msgspec.structs.replace(subject(), findings=(msgspec.structs.replace(found, fixes=(fix,)),)))
    read = Parsed(html)
    assert {found.title, label("runtime.placement.gpu_layers_set")} <= set(read.texts)
    assert f"{found.speedup:.1f}×" in html
    commands = [a["data-copy"] for a in read.all("button", class_="copy")]
    assert commands == ["llama-server -m x.gguf"]
    assert "remove <code>-ngl 20</code>" in html
    assert "unslow explain gpu_layers_set_too_low" in read.texts


def test_consequence_is_listed_under_its_root_cause(wording):
    html = findings(subject("other_process_holds_vram"))
    wording(re.search(r'class="links"><li><p><b>(.*?)</b>', html)[1])
    assert html.count('<ol class="findings">') == 1
    assert 'aria-hidden="true">2</span>' not in html


def test_text_without_findings_depends_on_the_verdict(wording):
    fine = msgspec.structs.replace(subject(), findings=(), verdict="normal")
    for verdict in ("normal", "slow", "failed", "cannot_tell"):
        wording(findings(msgspec.structs.replace(fine, verdict=verdict)))


def test_lines_outside_the_shell_say_where_they_belong(wording):
    html = lines_to_copy(["in the Modelfile: PARAMETER num_ctx 8192", "by hand: clean the fan", "ollama serve"])
    read = Parsed(html)
    assert [a["data-copy"] for a in read.all("button")] == ["PARAMETER num_ctx 8192", "ollama serve"]
    wording(read.texts, tells=("Modelfile", "clean the fan"))


def test_checklist_marks_have_words_for_screen_readers():
    read = Parsed(checklist(subject().checklist))
    assert "No: " in read.texts
    assert all(a.get("aria-hidden") == "true" for a in read.all("span", class_="mark"))


def test_gpu_questions_are_folded_into_one_without_a_gpu(wording):
    items = [ChecklistItem(item=f"Is {n} fine?", state="unknown", because="there is no GPU") for n in range(5)]
    read = Parsed(checklist([*items, ChecklistItem(item="Is it fast?", state="ok", because="yes")]))
    assert len(read.all("li")) == 2
    wording(read.texts, tells="5")
    wording(Parsed(checklist(items[:1])).texts)


def test_undetermined_causes_say_how_to_find_out(wording):
    items = (
        Untold(cause="a_b", missing="the log", because="nobody looked", how_to_get="run `x`", suspected=True),
        Untold(cause="c_d", missing="the clock", because="no driver", how_to_get=""),
    )
    shown = msgspec.structs.replace(
        subject(), cannot_tell=items, ask_next=(Question(command="nvidia-smi -q", why="shows the clocks"),)
    )
    html = undetermined_causes(shown)
    assert 'data-copy="nvidia-smi -q"' in html
    assert "run <code>x</code>" in html
    wording(Parsed(html).texts, tells=("1 cause ", "the clock"))


def test_undetermined_causes_name_the_button_that_measures(wording):
    how = "run `unslow` while the runtime is idle, without --passive"
    item = Untold(cause="a_b", missing="speed", because="not measured", how_to_get=how)
    question = Question(command="unslow http://127.0.0.1:8080", why="measures it")
    shown = msgspec.structs.replace(subject(), cannot_tell=(item,), ask_next=(question,))
    html = undetermined_causes(shown, {"diagnose": "Measure"})
    wording(Parsed(html).texts, tells="Measure")
    assert html.count("ress Measure") == 2
    assert "unslow" not in html
    assert html.count("unslow") < undetermined_causes(shown).count("unslow")


def test_next_step_has_its_own_paragraph(wording):
    shown = msgspec.structs.replace(subject(), summary="It is 9 tok/s. Slow because of a thing. First: close it.")
    html = render_verdict(shown, 0)
    assert '<p class="lead">Slow because of a thing.</p>' in html
    wording(re.search(r'<p class="next"><b>(.*?)</b>close it.</p>', html)[1])
    unknown = "It can't be told: no speed was measured. To find out: run `unslow` while the runtime is idle, "
    shown = msgspec.structs.replace(subject(), summary=f"{unknown}without --passive.")
    html = render_verdict(shown, 0, {"diagnose": "Measure"})
    wording(re.search(r'<p class="next">(.*?)</p>', html)[1], tells="Measure")
    assert "<code>unslow</code>" in render_verdict(shown, 0)


def test_flag_to_remove_has_no_copy_button():
    html = lines_to_copy(["remove -fit/-ngl/-c"])
    assert html == '<p class="by-hand">remove <code>-fit/-ngl/-c</code></p>'


def test_ruled_out_causes_are_folded(wording):
    html = ruled_out_causes([RuledOut(cause="eager_mode", because="graphs are on")] * 3)
    wording(re.match(r"<details><summary>(.*?)</summary>", html)[1], tells="3")
    assert "eager mode" in html


def test_contradictions_and_text_facts_are_listed(wording):
    html = contradictions(
        [ContradictionShown(about="layers", says=("33 in the log", "20 in the command"), meaning="one is old")]
    )
    wording(Parsed(html).texts, tells=("33 in the log", "20 in the command"))
    known = Evidence(fact="model.name", value="x", reference=None, origin="told", source="line 3")
    wording(Parsed(text_facts([known])).texts, tells="line 3")


def test_change_table_has_before_after_and_speedup(wording):
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
def test_headline_is_the_first_sentence_of_the_summary(summary, first):
    html = render_verdict(msgspec.structs.replace(subject(), summary=summary), 0)
    assert re.search(r"<h2[^>]*>([^<]*)</h2>", html)[1] == first


def test_changed_setting_is_shown_by_its_label():
    changes = ("runtime.cache.type_k: f16 → q8_0", "threads of the CPU: 8 → 4", "-ngl 20 → not set")
    html = change_panel.render_change(msgspec.structs.replace(change(), changes=changes), 0)
    for said in (f"{label('runtime.cache.type_k')}: f16 → q8_0", *changes[1:]):
        assert f"<li>{said}</li>" in html

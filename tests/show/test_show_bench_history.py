"""The list of benchmarks and a comparison, in the terminal and as JSON."""

import json

import pytest
from bench_cases import bench, spread
from rich.console import Group

from unslow.facts.bench import DECODE, FIRST, PREFILL, Comparison, Entry, HistoryReport
from unslow.show.bench_history import compared_fields, compared_parts, compared_sentence, render_history
from unslow.show.console import TextConsole, as_json
from unslow.think.stats.changes import BenchComparison, changes_between, suspect
from unslow.think.stats.comparison import compare_benches


def entry(number: int = 1, state: str = "whole", **other) -> Entry:
    known = Entry(
        f"20260115T10000{number}-ab12", "2026-01-15T10:00:00+00:00", "", "standard", "llama.cpp", "b9000",
        "llama-3.1-8b-q4_k_m.gguf", 60.0, 100.0, 2000.0, 9, 0, state,
    )  # fmt: skip
    return known._replace(**other)


def report(*entries: Entry, what: str = "kept", total: int | None = None) -> HistoryReport:
    return HistoryReport(what=what, path="/data/benchmarks.sqlite3", total=total or len(entries), benchmarks=entries)


def listed(*entries: Entry, width: int = 120, **other) -> str:
    return render_history(report(*entries, **other), "terminal", width=width, color=False)


def test_list_shows_id_date_and_label_within_the_terminal_width(wording):
    text = listed(
        entry(1, label="before the update"),
        entry(2, "broke_off", decode_tokens_per_s=None, failed=2),
        total=9,
        width=150,
    )
    wording(text, tells=("20260115T100001-ab12", "2026-01-15 10:00", "before the update", " 7 "))
    assert max(map(len, listed(entry(1)).splitlines())) <= 120
    narrow = listed(entry(1, label="before"), width=60)
    assert "20260115T100001-ab12" in narrow
    assert "100" in narrow.splitlines()[1]
    assert "before" in narrow
    assert max(map(len, narrow.splitlines())) <= 60


def test_list_shows_states_and_imported_protocol(wording):
    text = listed(entry(1, "interrupted"), entry(2, "running"), entry(3, protocol="imported"))
    wording(text, tells="imported")


def test_empty_list_names_the_database_path(wording):
    wording(listed(), tells="/data/benchmarks.sqlite3")


def test_removed_and_imported_benchmarks_are_confirmed(wording):
    wording(listed(entry(1), what="forgotten"), tells=("20260115T100001-ab12", "llama-3.1-8b-q4_k_m.gguf"))
    assert listed(entry(1), what="imported").startswith("imported 2026")


def test_list_as_json_has_schema_and_figures():
    data = json.loads(render_history(report(entry(1)), "json", width=80, color=False))
    assert (data["schema"], data["benchmarks"][0]["decode_tokens_per_s"]) == ("unslow.benchmarks/1", 100.0)


def test_model_name_and_label_send_no_escape_sequences():
    text = listed(entry(1, model="x\x1b[2J", label="\x1b]0;y\x07" + "z" * 5000))
    assert "\x1b" not in text
    assert "\x07" not in text


def compare(after: float, **other) -> BenchComparison:
    before, now = bench(1, 100.0, label="before"), bench(2, after, **other)
    comparison, changes = compare_benches(before, now), changes_between(before, now)
    return BenchComparison(before=before, comparison=comparison, changes=changes, suspect=suspect(comparison, changes))


def shown(found: BenchComparison, width: int = 110) -> str:
    console = TextConsole(width=width, color=False)
    console.print(Group(*compared_parts(found)))
    return console.text


def test_comparison_starts_with_the_relative_change(wording):
    text = shown(compare(70.0, runtime_version="b9100"))
    first = text.splitlines()[0]
    wording(first, tells="30 %")
    wording(text, about="0001-abcdef", tells=("2026-01-01", "10:00", "b9000"))
    assert "×0.700" in text
    wording(text, about="b9100", tells="b9000")
    assert wording(compare(70.0, runtime_version="b9100").suspect) in " ".join(text.split())
    assert max(map(len, shown(compare(70.0, runtime_version="b9100"), 70).splitlines())) <= 70


@pytest.mark.parametrize(("after", "facts"), [(130.0, ("FASTER", "30 %")), (97.0, "3.0 %"), (100.0, "0.0 %")])
def test_comparison_headline_names_each_verdict(after, facts, wording):
    wording(shown(compare(after)).splitlines()[0], tells=facts)


def test_sentence_is_about_the_figure_that_decides_the_verdict(wording):
    before = bench(
        1, figures={DECODE: spread(100), FIRST: spread(0.2)}, samples={DECODE: (100.0,) * 5, FIRST: (0.2,) * 5}
    )
    after = bench(
        2, figures={DECODE: spread(100), FIRST: spread(0.8)}, samples={DECODE: (100.0,) * 5, FIRST: (0.8,) * 5}
    )
    wording(compared_sentence(compare_benches(before, after)), tells="75 %")
    prefill = compare_benches(
        bench(1, figures={PREFILL: spread(2000)}), bench(2, figures={PREFILL: spread(1000)}, samples={})
    )
    assert compared_sentence(prefill).startswith("prefill: ")


def test_comparison_without_common_figures_says_cannot_tell(wording):
    nothing = Comparison(before="a", after="b", verdict="cannot_tell", because="x")
    wording(compared_sentence(nothing))


def test_comparison_as_json_has_verdict_changes_and_sentence():
    data = json.loads(as_json(compared_fields(compare(70.0, runtime_version="b9100"))))
    assert data["comparison"]["verdict"] == "slower"
    assert data["changes"][0]["fact"] == "runtime.version"
    assert data["said"].startswith("30 % ")
    assert "passes" not in data["before"]


def test_comparison_sends_no_escape_sequences():
    found = compare(70.0, runtime_version="b\x1b[31m9100")
    assert "\x1b" not in shown(found)

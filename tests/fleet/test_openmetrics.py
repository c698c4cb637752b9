"""The report as metrics: what a strict parser and promtool take, and what no label may hold."""

import math
import subprocess

import msgspec
import pytest
from cases import cpu_case, r
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.parser import text_string_to_metric_families as plain
from real_prometheus import promtool
from recorded_machines import MACHINES, recorded

from unslow.commands._formats import render
from unslow.fleet.openmetrics import (
    LONGEST_LABEL,
    MOST_SUBJECTS,
    Family,
    LookState,
    OwnCost,
    Sample,
    exposition,
    families_text,
    label_value,
    subjects_by_key,
)
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.judge.judge import diagnose, judge
from unslow.think.judge.pricing import OTHER
from unslow.think.report import BudgetPart, Finding, Report, SubjectReport

SLOW = "h200_llama_server_gpu_layers_set_too_low"
STATE = LookState(
    success=True,
    at_s=1794834155.25,
    duration_s=0.5,
    failures=2,
    seen_s=(("llama.cpp", 1794834100.0),),
    answers=(("llama.cpp", False),),
)
OWN = OwnCost(1.5, 2**26, 1794834000.0)
HOSTILE = 'a"b\\c\nd\x1b[31m\u202e' + "x" * 200


@pytest.fixture(scope="module")
def report() -> Report:
    return diagnose(recorded(MACHINES / SLOW))


def subject(**changed) -> SubjectReport:
    case = cpu_case()
    runtime = case.runtime.with_facts(url=r("http://127.0.0.1:8080"), version=r("b1234"))
    return msgspec.structs.replace(judge(CaseView(msgspec.structs.replace(case, runtime=runtime))), **changed)


SERVER = subject()


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a metric by the values of their labels, by the strict parser."""
    samples = [sample for family in strict(text) for sample in family.samples if sample.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in samples}


def test_slow_server_metrics(report):
    text = exposition(report, STATE, "openmetrics", OWN)
    verdicts = values(text, "unslow_verdict")
    assert verdicts == {("llama.cpp", v): v == "slow" for v in ("slow", "normal", "failed", "cannot_tell")}
    findings = values(text, "unslow_finding")
    assert {key for key, value in findings.items() if value} == {("llama.cpp", "gpu_layers_set_too_low", "decode")}
    one = report.subjects[0]
    assert len(findings) == len(one.ruled_out) + len(one.findings), "and nothing of what can't be told"
    assert values(text, "unslow_decode_tokens_per_second")["llama.cpp",] == pytest.approx(16.0, rel=0.01)
    expected = values(text, "unslow_expected_decode_tokens_per_second")
    low, mid, high = (expected["llama.cpp", bound] for bound in ("low", "mid", "high"))
    assert low < mid < high < values(text, "unslow_ceiling_decode_tokens_per_second")["llama.cpp",]
    spent = sum(v for key, v in values(text, "unslow_budget_seconds").items() if key[1] == "decode")
    assert spent == pytest.approx(1 / one.measured["decode_tokens_per_s"], rel=1e-4), "the parts are the whole"
    (info,) = values(text, "unslow_subject_info")
    assert info == ("llama.cpp", "llama.cpp", "b9999-b21e4de", "llama8b", "Q4_K_M", "NVIDIA H200")


def test_look_state_metrics(report):
    text = exposition(report, STATE, "openmetrics", OWN)
    assert values(text, "unslow_look_timestamp_seconds")[()] == 1794834155.25
    assert values(text, "unslow_look_failures_total")[()] == 2
    assert values(text, "unslow_speed_timestamp_seconds") == {("llama.cpp",): 1794834100.0}
    assert values(text, "unslow_subject_answers") == {("llama.cpp",): 0}
    assert values(text, "process_cpu_seconds_total")[()] == 1.5


def test_metrics_before_the_first_diagnosis():
    text = exposition(None, LookState(), "openmetrics", version="1.2")
    assert values(text, "unslow_look_success")[()] == 0
    assert values(text, "unslow_build_info") == {("1.2",): 1}
    assert "unslow_subject" not in text.replace("unslow_subjects_left_out", "")


def test_both_dialects_have_the_same_samples(report):
    open_metrics, text = (exposition(report, STATE, dialect, OWN) for dialect in ("openmetrics", "text"))
    assert open_metrics.endswith("\n# EOF\n")
    assert "# EOF" not in text
    assert "# UNIT" not in text
    samples = [{line for line in t.splitlines() if not line.startswith("#")} for t in (open_metrics, text)]
    assert samples[0] == samples[1]
    kinds = {family.name: family.type for family in plain(text)}
    assert kinds["unslow_look_failures"] == "counter"
    assert kinds["unslow_subject_info"] == "gauge"
    units = {family.name: family.unit for family in strict(open_metrics)}
    assert units["unslow_budget_seconds"] == "seconds"
    assert units["unslow_decode_tokens_per_second"] == "tokens_per_second"


def test_promtool_accepts_the_metrics(report):
    text = exposition(report, STATE, "text", OWN)
    done = subprocess.run(
        [promtool(), "check", "metrics"], input=text, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_diagnosis_has_an_openmetrics_format(report):
    text = render(report, "openmetrics", width=80, color=True) + "\n"
    assert values(text, "unslow_subjects")[()] == 1
    assert "unslow_look" not in text, "it was not watched"


def test_hostile_server_name_stays_inside_its_label():
    one = subject(model=HOSTILE, version=HOSTILE, runtime=HOSTILE)
    text = exposition(Report(unslow_version="1", machine={}, subjects=(one,)), None, "openmetrics")
    (info,) = [s for f in strict(text) for s in f.samples if s.name == "unslow_subject_info"]
    assert all(len(value) <= LONGEST_LABEL for value in info.labels.values())
    assert not {"\x1b", "\u202e", "\n"} & set("".join(info.labels.values()))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.sampled_from(["openmetrics", "text"]))
def test_arbitrary_server_names_give_valid_metrics(said, dialect):
    one = msgspec.structs.replace(SERVER, model=said, version=said, runtime=f"{said} {said}", devices=(said,))
    text = exposition(Report(unslow_version=said, machine={}, subjects=(one, one)), None, dialect)
    text.encode()
    parse = strict if dialect == "openmetrics" else plain
    samples = [sample for family in parse(text) for sample in family.samples]
    assert sum(sample.name == "unslow_verdict" for sample in samples) == 8
    values_ = [value for sample in samples for value in sample.labels.values()]
    assert max(map(len, values_)) <= LONGEST_LABEL
    assert not any("\n" in value for value in values_)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/home/anna/models/tiny.gguf", "tiny.gguf"),
        ("C:\\Users\\Anna\\tiny.gguf", "tiny.gguf"),
        ("~/models/tiny/", "tiny"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("anna@example.org", "masked@mail"),
        ("sk-abcdefgh12345678", "masked-token"),
        ("GPU-12345678-1234-1234-1234-123456789abc", "GPU-masked"),
        ("tab\there", "tab\ufffdhere"),
        ("x" * 1000, "x" * LONGEST_LABEL),
    ],
)
def test_labels_contain_no_user_names_or_paths(said, shown):
    assert label_value(said) == shown


def test_subject_keys_are_short_and_unique():
    two = [subject(number=number, model=name) for number, name in enumerate(("qwen", "gemma", "gemma"))]
    alone = subject(number=3, url="")
    keys = list(subjects_by_key((*two, alone)))
    assert keys == ["llama.cpp:8080/qwen", "llama.cpp:8080/gemma", "llama.cpp:8080/gemma#2", "llama.cpp"]


def test_number_of_subjects_is_bounded():
    many = tuple(subject(number=n, url=f"http://127.0.0.1:{9000 + n}") for n in range(MOST_SUBJECTS + 5))
    text = exposition(Report(unslow_version="1", machine={}, subjects=many), LookState(left_out=0), "openmetrics")
    assert len(values(text, "unslow_subject_info")) == MOST_SUBJECTS
    assert values(text, "unslow_subjects")[()] == MOST_SUBJECTS + 5


def test_cause_and_part_labels_come_from_fixed_sets():
    stranger = Finding(cause="made_up", title="x", confidence=1.0, because="", evidence=())
    parts = (
        BudgetPart(phase="decode", part="of my own", seconds=1.0, per="token"),
        BudgetPart(phase="decode", part="another", seconds=2.0, per="token"),
        BudgetPart(phase="nowhere", part="sampling", seconds=4.0, per="token"),
    )
    one = subject(findings=(stranger,), budget=parts)
    text = exposition(Report(unslow_version="1", machine={}, subjects=(one,)), None, "openmetrics")
    assert "made_up" not in text
    assert values(text, "unslow_budget_seconds") == {("llama.cpp:8080", "decode", OTHER, "token"): 3.0}


def test_equal_devices_are_counted_in_the_label():
    for devices, label in ((("L4", "L4", "Xeon"), "2x L4"), (("L4", "T4", "Xeon"), "L4, T4"), (("Xeon",), "Xeon")):
        one = Report(unslow_version="1", machine={}, subjects=(subject(devices=devices),))
        assert f'device="{label}"' in exposition(one, None, "openmetrics")


def test_no_sample_is_nan():
    family = Family("a", "b", (Sample(math.nan), Sample(math.inf), Sample(0.1 + 0.2), Sample(3.0)))
    assert families_text([family], "text").splitlines()[2:] == ["a 0.3", "a 3"]


def test_series_per_server_are_bounded():
    """Every cause found at once, with every part: the bound that the page on deployment states."""
    causes = [Finding(cause=name, title=name, confidence=1.0, because="", evidence=()) for name in all_causes()]
    one = subject(findings=tuple(causes))
    text = exposition(Report(unslow_version="1", machine={}, subjects=(one,)), None, "openmetrics")
    assert len(values(text, "unslow_finding")) == len(all_causes())

"""What a person sees."""

import json
import re

import msgspec
import pytest
from all_firing import FIRING
from cases import cpu_case, gpu_case

from unslow.show import formats, render
from unslow.show._units import fact_value, rate, size, span
from unslow.think.judge import judge
from unslow.think.report import Report

PROMISED = {"runtime", "model", "devices", "verdict", "phase", "measured", "expected", "budget", "findings"} | {
    "ruled_out",
    "cannot_tell",
    "checklist",
}


def shown(case, form="terminal", width=100, **more):
    report = Report(unslow_version="0", machine={}, subjects=(judge(case),))
    return render(report, form, width=width, color=False, **more)


def test_the_verdict_comes_first():
    assert shown(gpu_case()).startswith(" NORMAL ")
    assert shown(FIRING["memory_allocation_failed"]()).startswith(" FAILED ")


def test_a_finding_shows_its_evidence_its_fix_and_its_gain():
    text = shown(FIRING["gpu_layers_set_too_low"]())
    assert "A setting keeps layers off the GPU" in text
    assert re.search(r"\d+\.\d× faster without it", text)
    assert "runtime.gpu_layers_set = 20 (33 layers" in text
    assert "remove the setting" in text
    assert re.search(r"→ about [\d.]+ tok/s", text)


def test_missing_facts_say_how_to_get_them():
    text = shown(msgspec.structs.replace(gpu_case(), run=cpu_case().run.__class__()))
    assert "Could not tell" in text


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("name", list(FIRING))
def test_it_fits_the_terminal(name, width):
    assert all(len(line) <= width for line in shown(FIRING[name](), width=width).splitlines())


def test_no_colours_in_a_pipe():
    assert "\x1b" not in shown(gpu_case())
    coloured = render(
        Report(unslow_version="0", machine={}, subjects=(judge(gpu_case()),)), "terminal", width=80, color=True
    )
    assert "\x1b" in coloured


def test_json_holds_every_promised_field():
    subject = json.loads(shown(FIRING["other_process_holds_vram"](), "json"))["subjects"][0]
    assert subject.keys() >= PROMISED
    assert set(subject["expected"]) >= {"as_configured", "achievable", "ceiling_tokens_per_s", "basis"}
    finding = subject["findings"][0]
    assert {"cause", "confidence", "because", "evidence", "explains", "cost", "speedup", "fixes"} <= finding.keys()
    assert {"fact", "value", "reference", "origin", "source"} <= finding["evidence"][0].keys()
    assert {"knob", "value", "commands", "risk", "predicted"} <= finding["fixes"][0].keys()
    assert {"phase", "part", "seconds", "per"} <= subject["budget"][0].keys()
    assert {"item", "state", "because"} <= subject["checklist"][0].keys()


def test_formats_are_found_by_presence():
    assert formats() == ["json", "markdown", "terminal"]


def test_units():
    assert size(5 * 1024**3) == "5.0 GiB"
    assert size(300 * 1024**2) == "300 MiB"
    assert (rate(219.4), rate(12.34), rate(1.234)) == ("219", "12.3", "1.23")
    assert (span(2.5), span(0.0123), span(2e-6)) == ("2.5 s", "12.3 ms", "2 µs")
    assert fact_value("x_bytes", 1024**3) == "1.0 GiB"
    assert fact_value("x_bytes_per_s", 2e9) == "2.0 GB/s"
    assert fact_value("x", True) == "True"

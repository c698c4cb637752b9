"""The file that `unslow report` writes."""

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from recorded_machines import MACHINES, recorded

sys.path.insert(0, str(Path(__file__).parent / "html"))  # the samples of the page's tests
from page_samples import Parsed, view

from unslow.commands._command_lines import with_fix_commands
from unslow.commands._output import Silent
from unslow.commands.report import ReportRequest
from unslow.facts.errors import UserError
from unslow.facts.snapshot import dump_snapshot, parse_snapshot
from unslow.page import report
from unslow.page.build import Sources, view_of
from unslow.page.report import form_of, render_view, write_report
from unslow.think.judge.judge import diagnose

SLOW = str(MACHINES / "h200_llama_server_gpu_layers_set_too_low")


def wanted(**flags: object) -> ReportRequest:
    return ReportRequest.from_flags({"target": SLOW, **flags})


class Heard(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def test_report_format_follows_the_file_name_unless_given(wording):
    assert form_of(None, "a.MD") == "markdown"
    assert form_of(None, "a.json") == "json"
    assert form_of(None, "a.txt") == form_of(None, None) == form_of(None, "-") == "html"
    assert form_of("markdown", "a.html") == "markdown"
    with pytest.raises(UserError) as refused:
        form_of("pdf", None)
    wording(refused.value.message, refused.value.hint, tells=("'pdf'", "html", "markdown", "json"))


def test_report_is_written_and_its_path_printed(tmp_path):
    place, heard = tmp_path / "page.md", Heard()
    place.write_text("the old one")
    write_report(wanted(output=str(place), title="My machine"), heard)
    assert place.read_text().startswith("## My machine\n")
    assert [one for one in heard.said if one.startswith(f"wrote {place} (") and one.endswith("masked)")]
    assert os.listdir(tmp_path) == ["page.md"]


def test_report_has_the_given_title():
    assert "<h1>My machine</h1>" in render_view(view(), "html", "My machine")


def test_report_is_masked_unless_no_mask(tmp_path):
    seen, page = tmp_path / "seen.json", tmp_path / "page.json"
    snapshot = dump_snapshot(recorded(Path(SLOW))).decode()
    assert "models/llama8b.gguf" in snapshot
    seen.write_text(snapshot.replace("models/llama8b.gguf", "/home/alice/llama8b.gguf"))
    write_report(wanted(target=str(seen), output=str(page), no_mask=True), Silent())
    assert "/home/alice/llama8b.gguf" in page.read_text()
    write_report(wanted(target=str(seen), output=str(page)), Silent())
    assert "alice" not in page.read_text()
    shown = json.loads(page.read_text())
    assert (shown["schema"], shown["masked"]) == ("unslow.view/1", True)
    assert shown["report"]["subjects"][0]["verdict"] == "slow"


def test_hostile_snapshot_gives_an_inert_page():
    raw = dump_snapshot(recorded(Path(SLOW))).decode()
    hostile = raw.replace("llama8b", "</script><img src=x onerror=alert(1)>'\u202e").replace("NVIDIA H200", "<b>H200")
    snapshot = parse_snapshot(hostile.encode(), "hostile")
    read = Parsed(render_view(view_of(with_fix_commands(diagnose(snapshot), snapshot), Sources(snapshot)), "html"))
    assert not read.broken
    assert not read.all("img")
    assert len(read.all("script")) == 1
    assert any("</script><img" in text for text in read.texts)
    assert not any("\u202e" in text for text in read.texts)


def test_unwritable_output_fails_before_measuring(tmp_path, wording):
    for place in (tmp_path / "not" / "there.html", tmp_path):
        with pytest.raises(UserError) as refused:
            write_report(wanted(output=str(place)), Silent())
        wording(refused.value.message, refused.value.hint, tells=str(place))
    if os.geteuid():
        tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
        with pytest.raises(UserError, match=r"x\.html"):
            write_report(wanted(output=str(tmp_path / "x.html")), Silent())


def test_too_large_report_drops_the_slider_answers(monkeypatch):
    assert render_view(view(), "html").count("<template") == 3
    monkeypatch.setattr(report, "LARGEST_BYTES", 1000)
    page = render_view(view(), "html")
    assert "<template" not in page
    assert '<form class="sliders"' not in page

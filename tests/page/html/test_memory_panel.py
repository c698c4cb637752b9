import json
import re
from html import unescape

import msgspec
import pytest
from tests.page.html.chart_geometry import drawings, words
from tests.page.html.chart_samples import GIB, memory, part, spilling

from unslow.page.html.memory import render_answer, render_memory
from unslow.page.html.svg import WIDE
from unslow.page.view import MemoryBar, MemoryPart


def parts_of(html: str, kind: str) -> list[tuple[float, float]]:
    """Left and right end of each stretch of a kind, in the wide drawing."""
    wide = drawings(html)[0]
    found = [shape for shape in wide if shape.attrib.get("class") == f"part part-{kind}"]
    return [(float(s.attrib["x"]), float(s.attrib["x"]) + float(s.attrib["width"])) for s in found]


def with_bars(*bars: MemoryBar) -> str:
    return render_answer(msgspec.structs.replace(spilling(), bars=bars), 0)


def test_part_length_is_proportional_to_its_bytes():
    html = with_bars(
        MemoryBar(name="GPU", capacity_bytes=24 * GIB, parts=(part("weights", 12), part("kv", 6), part("free", 6)))
    )
    (weights,), (kv,), (free,) = (parts_of(html, kind) for kind in ("weights", "kv", "free"))
    assert weights[1] - weights[0] == pytest.approx(2 * (kv[1] - kv[0]), abs=0.3)
    assert weights[1] == pytest.approx(kv[0], abs=0.2)
    assert free[1] == pytest.approx(WIDE.width - 2, abs=0.2)


def test_lacking_part_starts_at_the_capacity(wording):
    html = with_bars(
        MemoryBar(name="GPU", capacity_bytes=24 * GIB, parts=(part("weights", 24), part("lacking", 8)), fits=False)
    )
    ((start, end),) = parts_of(html, "lacking")
    mark = next(shape for shape in drawings(html)[0] if shape.attrib.get("class") == "end")
    assert start == pytest.approx(float(mark.attrib["x1"]), abs=0.2)
    assert (end - start) / (start - 2) == pytest.approx(8 / 24, rel=0.01)
    wording(words(drawings(html)[0]), tells=("24.0 GiB", "8.0 GiB"))


def test_part_beyond_the_capacity_is_overlaid_by_the_lacking_part():
    html = with_bars(
        MemoryBar(name="GPU", capacity_bytes=8 * GIB, parts=(part("weights", 10), part("lacking", 2)), fits=False)
    )
    ((start, end),) = parts_of(html, "lacking")
    ((_, weights_end),) = parts_of(html, "weights")
    assert end == pytest.approx(weights_end, abs=0.2)
    assert start < weights_end


def test_partly_fitting_part_shows_its_full_size(wording):
    cut = MemoryPart(kind="weights", name="weights", bytes=4 * GIB, wanted_bytes=9 * GIB)
    html = with_bars(MemoryBar(name="GPU", capacity_bytes=8 * GIB, parts=(cut,)))
    wording(words(drawings(html)[0]), tells=("4.0 GiB", "9.0 GiB"))


def test_other_programs_are_named_however_small():
    html = render_answer(spilling(), 0)
    for svg in drawings(html):
        said = " ".join(words(svg))
        assert "firefox" in said
        assert "Xorg" in said


def test_identical_devices_share_a_bar(wording):
    alike = [MemoryBar(name=f"GPU {n}", capacity_bytes=80 * GIB, parts=(part("weights", 40),)) for n in range(8)]
    other = MemoryBar(name="GPU 8", capacity_bytes=80 * GIB, parts=(part("weights", 50),))
    wording(words(drawings(with_bars(*alike, other))[0]), tells=("GPU 0", "7", "GPU 8"))
    assert with_bars(*alike, other).count(">weights</td>") == 9


def test_answer_has_verdict_speed_bars_and_a_command_to_copy(wording):
    html = render_answer(spilling(), 3)
    assert 'data-copy="llama-server -m model.gguf -c 32768 -ngl 65"' in html
    assert spilling().verdict == "does_not_fit"
    wording(re.search(r'<p class="fits">(.*?)</p>', html)[1])
    assert "<strong>14.1</strong> tok/s" in html
    assert "11.2 to 17.8" in html
    assert all(note[1:] in html for note in spilling().notes)
    assert 'id="memory-3-figure"' in html


def test_answer_does_not_repeat_the_verdict():
    fits = msgspec.structs.replace(spilling(), verdict="fits", summary="Fits: 9.7 GiB of 10.0 GiB")
    assert "</span> 9.7 GiB of 10.0 GiB.</p>" in render_answer(fits, 0)
    tight = msgspec.structs.replace(fits, verdict="tight")
    assert "</span> 9.7 GiB of 10.0 GiB.</p>" in render_answer(tight, 0)


def test_sliders_carry_their_values_labels_and_current_place():
    html = render_memory(memory(), 2)
    found = re.search(r'<input type="range"[^>]*name="context"[^>]*>', html)[0]
    values = json.loads(unescape(re.search(r'data-values="([^"]*)"', found)[1]))
    labels = json.loads(unescape(re.search(r'data-labels="([^"]*)"', found)[1]))
    place = int(re.search(r' value="(\d+)"', found)[1])
    assert values[place] == "32768"
    assert labels[place] == "32,768 tokens"
    assert 'aria-valuetext="32,768 tokens"' in found
    assert f'max="{len(values) - 1}"' in found
    assert '<label for="memory-2-context">' in html
    assert '<output for="memory-2-context">32,768 tokens</output>' in html
    assert 'data-subject="2"' in html
    assert 'id="answer-2"' in html


def test_slider_with_a_single_value_is_left_out():
    assert 'name="slots"' not in render_memory(memory(), 0)
    assert "<form" not in render_memory(msgspec.structs.replace(memory(), sliders=()), 0)


def test_unknown_memory_size_is_stated(wording):
    wording(words(drawings(with_bars())[0]))
    wording(words(drawings(with_bars(MemoryBar(name="GPU")))[0]), tells="GPU")


def test_chart_description_is_the_summary_and_a_hint_at_the_table(wording):
    html = render_answer(msgspec.structs.replace(spilling(), summary="Fits: 3 GiB of 8"), 0)
    wording(re.search(r"<desc[^>]*>(.*?)</desc>", html)[1], tells="Fits: 3 GiB of 8. ")

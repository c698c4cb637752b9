"""The questions are answered by computed figures, and what the words around them claim holds for those figures."""

import re
from pathlib import Path

import pytest
from docs.figures import QUESTIONS
from docs.figures.asking import asked, cell, middle, model, speed, table
from docs.figures.daily import READING
from docs.figures.settings import _with_draft

from unslow.facts.values import Unknown
from unslow.think.memo import one_judgement

PAGES = Path(__file__).parents[2] / "docs" / "questions"
NAMES = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")


@pytest.fixture(autouse=True, scope="module")
def judgement():
    with one_judgement():
        yield


def test_every_page_has_its_figures_and_every_figure_its_page():
    assert sorted(QUESTIONS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_page_answers_first_then_shows_then_says_how_to_ask(name):
    text = (PAGES / f"{name}.md").read_text("utf-8")
    title, answer, figures, asking = (
        text.index(part) for part in ("# ", "<!-- answer:", "<!-- figures:", "## Ask it of your machine")
    )
    assert title < answer < figures < asking
    words = text[answer:figures].split("-->")[1].split("<!--")[0]
    assert len(re.findall(r"[.?!](?:\s|$)", words.replace("llama.cpp", ""))) >= 2
    assert text[figures:asking].count("\n|") >= 4
    assert re.search(r"```sh\nunslow ", text[asking:])


def test_a_second_card_helps_where_one_is_too_small_alone():
    assert middle("qwen3-8b", "2x RTX 3090") < 1.02 * middle("qwen3-8b", "RTX 3090")
    assert middle("llama-3.3-70b", "2x RTX 3090") > 3 * middle("llama-3.3-70b", "RTX 3090")


def test_a_mac_holds_what_a_card_does_not():
    assert middle("qwen3-32b", "RTX 5090") > middle("qwen3-32b", "M4 Max 128GB")
    assert middle("gpt-oss-120b", "M4 Max 128GB", None) > middle("gpt-oss-120b", "RTX 5090", None)
    assert isinstance(asked("gpt-oss-120b", "M4 Pro 48GB", None), Unknown)


def test_prompts_and_answers_meet_other_walls():
    mac, card = (speed("qwen3-8b", name).speed for name in ("M4 Max 64GB", "RTX 4090"))
    reads = card.prefill_tokens_per_s.mid / mac.prefill_tokens_per_s.mid
    assert reads > 3 * card.decode_tokens_per_s.mid / mac.decode_tokens_per_s.mid


def test_faster_ram_helps_what_lies_there_alone():
    slow, fast = ({"ram_bandwidth": ram} for ram in (40e9, 90e9))
    assert middle("qwen3-8b", "RTX 3060", **fast) == pytest.approx(middle("qwen3-8b", "RTX 3060", **slow), rel=0.01)
    assert middle("qwen3-32b", "RTX 3060", **fast) > 1.3 * middle("qwen3-32b", "RTX 3060", **slow)


def test_a_draft_helps_large_dense_models_most():
    dense = _with_draft("qwen3-32b", "qwen3-0.6b", "RTX 3090", 0.8)
    sparse = _with_draft("qwen3-30b-a3b", "qwen3-0.6b", "RTX 4090", 0.8)
    assert dense.speedup > 1.5 > sparse.speedup


def test_experts_cost_memory_in_all_and_time_in_part():
    sparse, dense = (model(name).parameters for name in ("qwen3-30b-a3b", "qwen3-32b"))
    assert sparse == pytest.approx(dense, rel=0.1)
    assert middle("qwen3-30b-a3b", "RTX 4090") > 3 * middle("qwen3-32b", "RTX 4090")


def test_reading_pace_lies_where_people_read():
    assert 175 / 60 < READING / (4 / 3) < 300 / 60  # the range of most adults, by the same source


def test_figures_stand_on_the_right_and_what_spills_says_so():
    assert table(("a", "b", "c"), [("x", "1", "y")]) == "| a | b | c |\n| --- | ---: | --- |\n| x | 1 | y |"
    assert cell(speed("llama-3.3-70b", "RTX 4090")).endswith("(spills)")
    assert cell(Unknown("it does not fit", "")) == "does not fit"

"""The question pages: figures are calculated, and the claims around them hold for those figures."""

import re
from pathlib import Path

import pytest
from docs._build.figures import QUESTIONS
from docs._build.figures.asking import asked, cell, middle, model, speed, table
from docs._build.figures.daily import READING
from docs._build.figures.settings import _with_draft

from unslow.facts.values import Unknown
from unslow.think.memo import one_judgement

PAGES = Path(__file__).parents[2] / "docs" / "questions"
NAMES = sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "README")


@pytest.fixture(autouse=True, scope="module")
def judgement():
    with one_judgement():
        yield


def test_every_question_page_has_figures_and_vice_versa():
    assert sorted(QUESTIONS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_question_page_has_answer_figures_and_command_in_order(name):
    text = (PAGES / f"{name}.md").read_text("utf-8")
    title, answer, figures, asking = (
        text.index(part) for part in ("# ", "<!-- answer:", "<!-- figures:", "## Try it on your machine")
    )
    assert title < answer < figures < asking
    words = text[answer:figures].split("-->")[1].split("<!--")[0]
    assert len(re.findall(r"[.?!](?:\s|$)", words.replace("llama.cpp", ""))) >= 2
    assert text[figures:asking].count("\n|") >= 4
    assert re.search(r"```sh\nunslow ", text[asking:])


def test_a_second_gpu_helps_only_if_one_is_too_small():
    assert middle("qwen3-8b", "2x RTX 3090") < 1.02 * middle("qwen3-8b", "RTX 3090")
    assert middle("llama-3.3-70b", "2x RTX 3090") > 3 * middle("llama-3.3-70b", "RTX 3090")


def test_a_mac_runs_models_that_do_not_fit_a_gpu():
    assert middle("qwen3-32b", "RTX 5090") > middle("qwen3-32b", "M4 Max 128GB")
    assert middle("gpt-oss-120b", "M4 Max 128GB", None) > middle("gpt-oss-120b", "RTX 5090", None)
    assert isinstance(asked("gpt-oss-120b", "M4 Pro 48GB", None), Unknown)


def test_prefill_differs_more_than_decode_between_mac_and_gpu():
    mac, card = (speed("qwen3-8b", name).speed for name in ("M4 Max 64GB", "RTX 4090"))
    reads = card.prefill_tokens_per_s.mid / mac.prefill_tokens_per_s.mid
    assert reads > 3 * card.decode_tokens_per_s.mid / mac.decode_tokens_per_s.mid


def test_faster_ram_helps_only_models_that_spill():
    slow, fast = ({"ram_bandwidth": ram} for ram in (40e9, 90e9))
    assert middle("qwen3-8b", "RTX 3060", **fast) == pytest.approx(middle("qwen3-8b", "RTX 3060", **slow), rel=0.01)
    assert middle("qwen3-32b", "RTX 3060", **fast) > 1.3 * middle("qwen3-32b", "RTX 3060", **slow)


def test_a_draft_model_helps_large_dense_models_most():
    dense = _with_draft("qwen3-32b", "qwen3-0.6b", "RTX 3090", 0.8)
    sparse = _with_draft("qwen3-30b-a3b", "qwen3-0.6b", "RTX 4090", 0.8)
    assert dense.speedup > 1.5 > sparse.speedup


def test_moe_models_cost_full_memory_but_decode_faster():
    sparse, dense = (model(name).parameters for name in ("qwen3-30b-a3b", "qwen3-32b"))
    assert sparse == pytest.approx(dense, rel=0.1)
    assert middle("qwen3-30b-a3b", "RTX 4090") > 3 * middle("qwen3-32b", "RTX 4090")


def test_reading_speed_is_within_the_range_of_adults():
    assert 175 / 60 < READING / (4 / 3) < 300 / 60  # the range of most adults, by the same source


def test_tables_align_numbers_right_and_mark_spills():
    assert table(("a", "b", "c"), [("x", "1", "y")]) == "| a | b | c |\n| --- | ---: | --- |\n| x | 1 | y |"
    assert cell(speed("llama-3.3-70b", "RTX 4090")).endswith("(spills)")
    assert cell(Unknown("it does not fit", "")) == "does not fit"

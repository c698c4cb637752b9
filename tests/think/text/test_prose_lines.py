"""Which lines are prose, and how they are cleaned before reading."""

import pytest

from unslow.think.text.lines import LONGEST_LINE, MOST_CHARACTERS, MOST_LINES, prose_lines


def texts(*lines: str) -> list[str]:
    return [line.original for line in prose_lines(lines, "report.txt")]


@pytest.mark.parametrize(
    "line",
    [
        "2026-03-01T10:00:00 something happened",
        "[2026/03/01 10:00:00] INFO started",
        "time=2026-03-01T10:00:00 level=INFO source=routes.go:1 msg=x",
        "Mar 11 10:00:00 box ollama[812]: x",
        "0.00.154.214 I llama_model_loader: loaded meta data",
        "INFO 03-01 10:00:00 [engine.py:12] x",
        "[GIN] 2026/03/01 - 10:00:00 | 200 |  1.2s | 127.0.0.1 | POST",
        "(EngineCore pid=12) INFO x",
        "llm_load_tensors: offloaded 20/33 layers to GPU",
        "ggml_cuda_init: found 1 CUDA devices:",
        "srv  load_model: loading model",
        "slot      release: id  0 | task 0 |",
        "+-----------------------------------+",
        '{"model": "x"}',
        "}",
    ],
)
def test_program_output_is_not_prose(line):
    assert texts(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "Ollama: 0.6.2 on Ubuntu",
        "vllm: 0.8.5",
        "llama.cpp is slow since last week",
        "The slot in my board is PCIe x4",
        "2026 was a good year for GPUs",
        "I see: nothing on the GPU",
    ],
)
def test_user_text_is_prose(line):
    assert texts(line) == [line]


def test_list_and_quote_markers_are_removed():
    assert texts("- RTX 3090", "> it is slow", "## Setup", "2. run it", "* a", "  • b") == [
        *("RTX 3090", "it is slow", "Setup", "run it", "a", "b")
    ]


def test_every_line_keeps_its_number():
    lines = list(prose_lines(["", "first", "INFO x", "second"], "report.txt"))
    assert [line.where for line in lines] == ["report.txt:2", "report.txt:4"]
    (late,) = prose_lines(["late"], "big.log", numbers=[90_001])
    assert late.where == "big.log:90001"


def test_normalized_text_keeps_character_positions():
    (line,) = prose_lines(["İt drops 31 → 7 tok/s – “why”?"], "r")
    assert len(line.text) == len(line.original)
    assert line.text == 'it drops 31 > 7 tok/s - "why"?'
    assert next(prose_lines(["2× 3090"], "r")).text == "2x 3090"


@pytest.mark.parametrize(
    "line",
    [
        "\x1b]52;c;aGVsbG8=\x07slow",
        "\x1b]8;;http://evil\x1b\\slow\x1b]8;;\x1b\\",
        "\x1b[31;1mslow\x1b[0m",
        "\x9b31mslow",
        "\x9d0;title\x9cslow",
        "s\x00l\x08o\x7fw",
        "\u202eslow\u202c\u2066\u200f",
    ],
)
def test_control_sequences_are_removed(line):
    assert texts(line) == ["slow"]


def test_keys_are_masked_before_a_line_is_cut():
    key = "sk-" + "x1" * 20
    (line,) = prose_lines(["y" * (LONGEST_LINE - 10) + " " + key], "r")
    assert "x1" not in line.original
    assert len(line.original) <= LONGEST_LINE


def test_text_size_is_limited():
    words = ["".join(chr(97 + int(digit)) for digit in str(n)) for n in range(2 * MOST_LINES)]
    assert len(list(prose_lines(words, "r"))) == MOST_LINES
    assert [len(text) for text in texts("a" * 10**6)] == [LONGEST_LINE]
    assert sum(map(len, texts(*(word + "x" * LONGEST_LINE for word in words)))) <= MOST_CHARACTERS


def test_repeated_patterns_are_program_output():
    lines = [f"step {n} of 900 done" for n in range(900)]
    assert texts(*lines) == lines[:3]
    assert texts(*lines, "it is slow")[-1] == "it is slow"

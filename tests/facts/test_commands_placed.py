import pytest

from unslow.facts.commands import Line, Place, labelled_line, line_for_reader, parse_line


@pytest.mark.parametrize("place", [place for place in Place if place not in (Place.SHELL, Place.FLAG)])
def test_a_labelled_line_is_parsed_back(place):
    assert parse_line(labelled_line(place, "do it")) == Line(place, "do it")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("-ngl 99", Place.FLAG),
        ("--enforce-eager", Place.FLAG),
        ("remove -ngl 20", Place.FLAG),
        ("start it without --enforce-eager", Place.FLAG),
        ("ollama stop llama3", Place.SHELL),
        ("OMP_NUM_THREADS=4 python x.py", Place.SHELL),
    ],
)
def test_an_unlabelled_line_is_a_flag_or_a_shell_command(text, place):
    assert parse_line(text) == Line(place, text)


def test_a_multi_line_text_follows_its_label():
    assert (
        line_for_reader(labelled_line(Place.PYTHON, "import torch\nprint(1)")) == "in Python:\nimport torch\nprint(1)"
    )
    assert line_for_reader(labelled_line(Place.PYTHON, "print(1)")) == "in Python: print(1)"
    assert line_for_reader("echo a\necho b") == "echo a\necho b"

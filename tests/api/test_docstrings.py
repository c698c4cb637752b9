"""The docstrings of the package are its reference and the text of its tools: none may be missing."""

import inspect

import pytest
from docs._build.docstrings import NEEDED, docstring_of, paragraphs

import unslow
from unslow.commands._dispatch import command_parser

FUNCTIONS = [getattr(unslow, name) for name in unslow.__all__ if inspect.isfunction(getattr(unslow, name))]
OF_PROGRAMS = {"progress"}
OF_COMMANDS = {"help", "format", "quiet", "list", "csv", "out", "force", "save", "record", "all"}
"""Where output goes, which a program decides for itself."""


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f.__name__ != "watch"], ids=lambda f: f.__name__)
def test_every_argument_is_documented(function):
    words = docstring_of(function)
    assert words.summary.endswith(".")
    assert not [one.name for one in words.arguments if not one.words]
    assert all(":" not in part.split(" ")[0] for part in paragraphs(words.text)), "a line about no argument"


def test_a_docstring_is_parsed_into_summary_text_and_arguments():
    def made(first: int, second: str = "x") -> None:
        """What it does.

        More of it:
        this too.

        first: a number
            that goes on
        second: a word
        """

    words = docstring_of(made)
    assert (words.summary, words.text) == ("What it does.", "More of it:\nthis too.")
    assert [(a.name, a.default, a.words) for a in words.arguments] == [
        ("first", NEEDED, "a number that goes on"), ("second", "x", "a word"),
    ]  # fmt: skip
    assert words.arguments[0].kind is int


@pytest.mark.parametrize("name", ["diagnose", "fit", "predict", "plan", "devices", "choose", "cost", "tiers"])
def test_each_function_takes_what_its_command_takes(name):
    flags = {action.dest for action in command_parser(name)._actions} - OF_COMMANDS
    taken = {one.name for one in docstring_of(getattr(unslow, name)).arguments} - OF_PROGRAMS - OF_COMMANDS
    assert flags == taken

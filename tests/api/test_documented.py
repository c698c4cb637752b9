"""The docstrings of the package are the reference and the words of the tools: nothing of them may be missing."""

import inspect

import pytest
from docs.documented import NEEDED, documented, paragraphs

import unslow
from unslow.commands._dispatch import command_parser

FUNCTIONS = [getattr(unslow, name) for name in unslow.__all__ if inspect.isfunction(getattr(unslow, name))]
OF_PROGRAMS = {"progress"}
OF_COMMANDS = {"help", "format", "quiet", "list", "csv", "out", "force", "save", "record", "all"}
"""Where output goes, which a program decides for itself."""


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f.__name__ != "watch"], ids=lambda f: f.__name__)
def test_every_argument_is_documented(function):
    words = documented(function)
    assert words.summary.endswith(".")
    assert not [one.name for one in words.arguments if not one.words]
    assert all(":" not in part.split(" ")[0] for part in paragraphs(words.text)), "a line about no argument"


def test_a_docstring_is_taken_apart():
    def made(first: int, second: str = "x") -> None:
        """What it does.

        More of it:
        this too.

        first: a number
            that goes on
        second: a word
        """

    words = documented(made)
    assert (words.summary, words.text) == ("What it does.", "More of it:\nthis too.")
    assert [(a.name, a.default, a.words) for a in words.arguments] == [
        ("first", NEEDED, "a number that goes on"), ("second", "x", "a word"),
    ]  # fmt: skip
    assert words.arguments[0].kind is int


@pytest.mark.parametrize("name", ["diagnose", "fit", "predict", "plan", "devices", "choose", "cost", "tiers"])
def test_whatever_a_command_takes_the_function_takes(name):
    flags = {action.dest for action in command_parser(name)._actions} - OF_COMMANDS
    taken = {one.name for one in documented(getattr(unslow, name)).arguments} - OF_PROGRAMS - OF_COMMANDS
    assert flags == taken

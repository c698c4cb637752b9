"""The docstrings of the package are the reference and the words of the tools: nothing of them may be missing."""

import inspect

import pytest

import unslow
from unslow.api.documented import NEEDED, documented, paragraphs
from unslow.api.fitting import fit
from unslow.cli._dispatch import commands, parser

FUNCTIONS = [getattr(unslow, name) for name in unslow.__all__ if inspect.isfunction(getattr(unslow, name))]
OF_PROGRAMS = {"progress"}
OF_COMMANDS = {"help", "format", "quiet", "list", "csv", "out", "force", "save", "record", "all"}
"""Where output goes, which a program decides for itself."""
OTHERWISE = {"devices": "device", "ram_bytes": "ram", "margin_bytes": "margin", "depth": "context", "aim": "goal"} | {
    "least_tokens_per_s": "least_speed", "worst_perplexity_increase": "worst_perplexity"
}  # fmt: skip


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


BUYERS = [name for name in ("devices", "choose", "cost", "tiers") if name in commands()]


@pytest.mark.parametrize("name", ["diagnose", "fit", "predict", "plan", *BUYERS])
def test_whatever_a_command_takes_the_function_takes(name):
    command = next(a for a in parser()._actions if a.dest == "command").choices[name]
    flags = {OTHERWISE.get(action.dest, action.dest) for action in command._actions} - OF_COMMANDS
    taken = {one.name for one in documented(getattr(unslow, name)).arguments} - OF_PROGRAMS - OF_COMMANDS
    assert flags == taken


def test_defaults_are_those_of_the_request():
    from unslow.app.fit import Request

    same = [one for one in documented(fit).arguments if one.name in Request._fields and one.default is not NEEDED]
    assert len(same) > 10
    unlike = [one.name for one in same if one.default != Request._field_defaults[one.name]]
    assert unlike == ["runtime"]  # written as people write it

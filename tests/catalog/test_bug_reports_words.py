"""The vocabulary of bug reports is data: it loads, names existing facts, and reads any line in bounded time."""

import re
from collections.abc import Iterator
from re import _constants as kinds
from re import _parser
from typing import Any

import pytest

from unslow.catalog import bug_reports
from unslow.facts.account import Topic
from unslow.facts.machine import Cpu, Gpu, Memory
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime

PLACES = {
    "runtime": Runtime,
    **{f"runtime.{group}": type(getattr(Runtime(), group)) for group in Runtime.__struct_fields__},
    "model": Model,
    "run": Run,
    "machine.cpu": Cpu,
    "machine.memory": Memory,
    "machine.gpus.0": Gpu,
    "machine.gpus.each": Gpu,
}


def patterns() -> dict[str, re.Pattern[str]]:
    found = {f"number {n} {p.path}": p.says for n, p in enumerate(bug_reports.number_phrases())}
    for topic, phrases in bug_reports.remark_phrases().items():
        found[f"remark {topic}"] = phrases.says
        found |= {f"remark {topic} unless": phrases.unless} if phrases.unless else {}
    found |= {f"difference {topic}": pattern for topic, pattern in bug_reports.difference_phrases().items()}
    return found | {f"version {name}": pattern for name, pattern in bug_reports.version_phrases().items()}


def repeats(tree: Any, inside: int = 1) -> Iterator[tuple[int, int]]:
    """How often each repeat may run, and how often what it stands in."""
    for kind, value in tree:
        if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            most = int(value[1])
            yield most, inside
            yield from repeats(value[2], inside * most)
        elif kind is kinds.SUBPATTERN:
            yield from repeats(value[3], inside)
        elif kind is kinds.BRANCH:
            for branch in value[1]:
                yield from repeats(branch, inside)
        elif kind in (kinds.ASSERT, kinds.ASSERT_NOT):
            yield from repeats(value[1], inside)


@pytest.mark.parametrize("name", patterns())
def test_no_pattern_nests_unbounded_repeats(name):
    pattern = patterns()[name]
    for most, inside in repeats(_parser.parse(pattern.pattern)):
        assert min(most, inside) < 200, "an endless repeat of an endless repeat reads a line for ever"


def test_the_repeat_check_finds_nested_unbounded_repeats():
    assert any(min(pair) >= 200 for pair in repeats(_parser.parse(r"(?:\w+ ?)*x")))


@pytest.mark.parametrize("phrase", bug_reports.number_phrases(), ids=lambda phrase: phrase.path)
def test_number_phrases_name_existing_facts(phrase):
    place, _, name = phrase.path.rpartition(".")
    assert name in PLACES[place].__struct_fields__


def test_patterns_are_lowercase():
    for name, pattern in patterns().items():
        plain = re.sub(r"\\.|\(\?P<\w+>", "", pattern.pattern)
        assert plain == plain.lower(), name


def test_every_topic_has_a_phrase():
    said = bug_reports.remark_phrases().keys() | bug_reports.difference_phrases().keys()
    assert set(Topic) == said


def test_longer_runtime_names_are_tried_first():
    words = [word for word, _ in bug_reports.runtime_words()]
    assert words.index("llama-cpp-python") < words.index("llamacpp")
    assert words == sorted(words, key=len, reverse=True)
    assert all(word == word.lower() for word in words)

"""What changed in which runtime version."""

import pytest

from unslow.catalog.runtimes import changes_at, version_changes, version_numbers
from unslow.facts.account import Topic


def test_every_change_has_a_comparable_version_and_a_source() -> None:
    assert len(version_changes()) >= 6
    for change in version_changes().values():
        assert version_numbers(change.version), change
        assert change.source
        assert change.what


@pytest.mark.parametrize(
    ("before", "since", "found"),
    [("b1842", "b1843", True), ("", "b1843", True), ("b1700", "b2000", True), ("", "b1850", False),
     ("b1843", "b1850", False), ("b1842", "", False)],
)  # fmt: skip
def test_a_change_is_found_between_two_versions(before: str, since: str, found: bool) -> None:
    at = changes_at("llama.cpp b1843+", before, since)
    assert (Topic.SPLIT_MODE in [c.topic for c in at]) is found


def test_a_change_belongs_to_its_runtime() -> None:
    assert not changes_at("ollama", "b1842", "b1843")
    assert [c.version for c in changes_at("ollama", "0.15.4", "0.15.6")] == ["0.15.5"]


def test_versions_are_parsed_to_numbers() -> None:
    assert version_numbers("v0.15.5-rc1") == (0, 15, 5, 1)
    assert version_numbers("unknown") == ()
    assert version_numbers("9" * 4000) == (999_999_999,)

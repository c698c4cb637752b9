"""Experiments and their sides: read from labels, or from the text of older accounts."""

import msgspec

from unslow.facts.account import Account, Comparison, Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin, told_fact
from unslow.think.case.narrative import counts_of, labels, set_elsewhere, slow_side_has, slow_side_has_more
from unslow.think.case.view import CaseView

OLD = (
    b'{"metric": "decode", "slow": 50.0, "fast": 100.0, "differs": ["flash_attention"], "source": "p:2", "text": "%s"}'
)


def old(text: str) -> Comparison:
    """A comparison as it was recorded before its sides had names."""
    return msgspec.json.decode(OLD % text.encode(), type=Comparison)


def test_sides_are_read_from_the_text_of_old_recordings():
    assert slow_side_has(old("-fa off 50 t/s, -fa on 100 t/s"), Topic.FLASH_ATTENTION) is False
    assert slow_side_has(old("with -fa on 50 t/s ; with -fa off 100 t/s"), Topic.FLASH_ATTENTION) is True
    assert slow_side_has(old("50 and 100"), Topic.FLASH_ATTENTION) is None
    assert old("").now is None


def test_labels_win_over_the_text():
    given = Comparison(metric="decode", slow=1, fast=2, slow_is="16 threads", fast_is="8", text="8 t/s", source="p:1")
    assert labels(given) == ("16 threads", "8")
    assert counts_of(given, Topic.THREADS) == (16, 8)
    assert slow_side_has_more(given, Topic.THREADS) is True


def test_experiment_whose_fast_side_is_in_use_is_over():
    one = Comparison(metric="decode", slow=1, fast=2, differs=(Topic.THREADS,), source="p:1")
    over = msgspec.structs.replace(one, now="fast")
    assert (
        CaseView(Case(account=Account(comparisons=told_fact((one,), "p")))).narrative.experiment_on(Topic.THREADS)
        == one
    )
    assert (
        CaseView(Case(account=Account(comparisons=told_fact((over,), "p")))).narrative.experiment_on(Topic.THREADS)
        is None
    )


def test_setting_from_the_same_text_belongs_to_either_side():
    one = old("")
    assert set_elsewhere(Known(8, Origin.REPORTED, "p:7"), one) is None
    assert set_elsewhere(Known(8, Origin.REPORTED, "/proc/7/cmdline"), one) == 8

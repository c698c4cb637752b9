"""The rules are made from the catalogue and the causes: none is forgotten, and none says what its cause does not."""

import re

import pytest

from unslow.catalog.prometheus import alerts, recordings
from unslow.fleet.alerts import (
    LONGEST,
    AlertRule,
    Recording,
    filled,
    not_alerted,
    number_of,
    page_link,
    rule_groups,
    texts_of,
)
from unslow.think.causes import all_causes, cause_ids, gpu_power_capped, swapping

RULES = [rule for group in rule_groups() for rule in group.rules]
ALERTS = [rule for rule in RULES if isinstance(rule, AlertRule)]


def test_every_cause_is_alerted_or_left_out_with_a_reason():
    told = {rule.labels["cause"] for rule in ALERTS if "cause" in rule.labels}
    assert told | not_alerted().keys() == set(cause_ids())
    assert not told & not_alerted().keys()
    assert all(len(why) > 20 for why in not_alerted().values())


def test_numbers_come_from_the_cause():
    capped = next(rule for rule in ALERTS if rule.id == "gpu_power_capped")
    assert f"<= {gpu_power_capped.LOW_CLOCK}" in capped.expr
    assert number_of("swapping", "HARMFUL") == str(int(swapping.HARMFUL)) == "8388608"
    assert "${" not in "".join(rule.expr for rule in RULES)


def test_a_number_that_no_cause_has_is_an_error():
    with pytest.raises(AttributeError):
        filled("x > ${swapping.NO_SUCH_NUMBER}")


def test_an_alert_says_what_its_cause_says():
    hot = next(rule for rule in ALERTS if rule.id == "gpu_thermal_throttling")
    title = all_causes()["gpu_thermal_throttling"].title
    assert hot.annotations["summary"].startswith(f"{title}: {{{{ $labels.instance }}}}")
    assert "too hot" in hot.annotations["description"]
    assert "nvidia-smi -pl" in hot.annotations["what_to_do"]
    assert hot.annotations["runbook_url"] == "docs/reference/causes/gpu_thermal_throttling.md"


def test_runbooks_lead_to_the_site_where_there_is_one():
    assert (
        page_link("https://docs.example.org/u/", "reference/causes/x")
        == "https://docs.example.org/u/reference/causes/x.html"
    )
    assert page_link("https://h", "how_to/alerts#look_failed") == "https://h/how_to/alerts.html#look_failed"
    named = [rule for group in rule_groups("https://h/") for rule in group.rules if isinstance(rule, AlertRule)]
    assert all(rule.annotations["runbook_url"].startswith("https://h/") for rule in named)


@pytest.mark.parametrize("cause", list(cause_ids()))
def test_texts_are_short_and_hold_no_template(cause: str):
    texts = texts_of(cause)
    assert all(texts)
    assert all(len(text) <= LONGEST + 2 and "{{" not in text and "\n" not in text for text in texts)


def test_a_long_text_is_cut_after_a_whole_item():
    cut = [t for c in cause_ids() if (t := texts_of(c).to_do).endswith(" …")]
    assert cut
    assert all(re.search(r"[^\s;] …$", text) for text in cut)


def test_recordings_follow_the_convention_and_use_only_what_was_computed_before():
    kept = [rule for rule in RULES if isinstance(rule, Recording)]
    assert all(re.fullmatch(r"unslow:[a-z_]+:[a-z]+(?:\d+m)?", rule.record) for rule in kept)
    names, seen = {rule.record for rule in kept}, set()
    for rule in kept:
        assert {m for m in re.findall(r"unslow:[\w:]+", rule.expr) if m in names} <= seen, rule.record
        seen.add(rule.record)
    assert {m for rule in ALERTS for m in re.findall(r"unslow:[\w:]+", rule.expr)} <= names


def test_two_ways_to_one_quantity_never_write_the_same_series():
    for group in recordings().values():
        for rule in group.rules:
            labels = [tuple(way.labels.items()) for way in rule.ways]
            assert len(set(labels)) == len(labels), rule.record


@pytest.mark.parametrize("name", list(alerts()))
def test_every_alert_has_a_case_and_two_near_misses(name: str):
    trials = alerts()[name].trials
    assert any(trial.fires for trial in trials)
    assert sum(not trial.fires for trial in trials) >= 2

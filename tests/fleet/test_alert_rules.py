"""The rules are made from the catalog and the causes: none is forgotten, and none says what its cause does not."""

import re

import pytest

from unslow.catalog import prometheus as catalog
from unslow.catalog.prometheus import alerts, recordings
from unslow.fleet.alerts import LONGEST, AlertRule, Recording, fill_rule, rule_groups, texts_of
from unslow.think.causes import all_causes, cause_ids, gpu_power_capped, swapping

RULES = [rule for group in rule_groups().values() for rule in group]
ALERTS = [rule for rule in RULES if isinstance(rule, AlertRule)]


def test_every_cause_is_alerted_or_left_out_with_a_reason():
    told = {rule.labels["cause"] for rule in ALERTS if "cause" in rule.labels}
    left_out = {cause: why for alert in catalog.alerts().values() for cause, why in alert.left_out.items()}
    assert told | left_out.keys() == set(cause_ids())
    assert not told & left_out.keys()
    assert all(len(why) > 20 for why in left_out.values())


def test_rule_thresholds_come_from_the_cause():
    capped = next(rule for rule in ALERTS if rule.id == "gpu_power_capped")
    assert f"<= {gpu_power_capped.LOW_CLOCK}" in capped.expr
    assert fill_rule("> ${swapping.HARMFUL}") == f"> {int(swapping.HARMFUL)}" == "> 8388608"
    assert "${" not in "".join(rule.expr for rule in RULES)


def test_unknown_threshold_name_is_an_error():
    with pytest.raises(AttributeError):
        fill_rule("x > ${swapping.NO_SUCH_NUMBER}")


def test_alert_text_comes_from_the_cause():
    hot = next(rule for rule in ALERTS if rule.id == "gpu_thermal_throttling")
    title = all_causes()["gpu_thermal_throttling"].title
    assert hot.annotations["summary"].startswith(f"{title}: {{{{ $labels.instance }}}}")
    assert "too hot" in hot.annotations["description"]
    assert "nvidia-smi -pl" in hot.annotations["what_to_do"]
    assert hot.annotations["runbook_url"] == "docs/reference/causes/gpu_thermal_throttling.md"


def test_runbook_urls_use_the_given_site():
    site = "https://docs.example.org/u"
    named = [rule for group in rule_groups(f"{site}/").values() for rule in group if isinstance(rule, AlertRule)]
    pages = {rule.annotations["runbook_url"] for rule in named}
    assert all(page.startswith(f"{site}/") for page in pages)
    assert f"{site}/reference/causes/swapping.html" in pages
    assert any(page.startswith(f"{site}/how_to/alerts.html#") for page in pages)


@pytest.mark.parametrize("cause", list(cause_ids()))
def test_cause_texts_are_short_and_template_free(cause: str):
    texts = texts_of(cause)
    assert all(texts)
    assert all(len(text) <= LONGEST + 2 and "{{" not in text and "\n" not in text for text in texts)


def test_long_text_is_cut_after_a_complete_item():
    cut = [t for c in cause_ids() if (t := texts_of(c).to_do).endswith(" …")]
    assert cut
    assert all(re.search(r"[^\s;] …$", text) for text in cut)


def test_recordings_follow_naming_and_use_only_earlier_ones():
    kept = [rule for rule in RULES if isinstance(rule, Recording)]
    assert all(re.fullmatch(r"unslow:[a-z_]+:[a-z]+(?:\d+m)?", rule.record) for rule in kept)
    names, seen = {rule.record for rule in kept}, set()
    for rule in kept:
        assert {m for m in re.findall(r"unslow:[\w:]+", rule.expr) if m in names} <= seen, rule.record
        seen.add(rule.record)
    assert {m for rule in ALERTS for m in re.findall(r"unslow:[\w:]+", rule.expr)} <= names


def test_alternative_recordings_never_write_the_same_series():
    for group in recordings().values():
        for rule in group.rules:
            labels = [tuple(way.labels.items()) for way in rule.ways]
            assert len(set(labels)) == len(labels), rule.record


@pytest.mark.parametrize("name", list(alerts()))
def test_every_alert_has_a_firing_case_and_two_near_misses(name: str):
    trials = alerts()[name].trials
    assert any(trial.fires for trial in trials)
    assert sum(not trial.fires for trial in trials) >= 2

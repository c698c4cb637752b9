"""The page on alerts has everything that runbooks lead to."""

import re
from pathlib import Path

from unslow.catalog import prometheus as catalog
from unslow.fleet.alerts import AlertRule, rule_groups
from unslow.fleet.dashboard import alert_blocks

DOCS = Path(__file__).parents[2] / "docs"
RUNBOOKS = {
    rule.annotations["runbook_url"] for group in rule_groups().values() for rule in group if isinstance(rule, AlertRule)
}


def test_every_runbook_url_has_a_page():
    page = (DOCS / "how_to" / "alerts.md").read_text("utf-8")
    for runbook in RUNBOOKS:
        path, _, anchor = runbook.partition("#")
        assert (DOCS.parent / path).is_file(), runbook
        assert not anchor or f'<a id="{anchor}"></a>' in page, runbook


def test_alerts_page_has_every_generated_block():
    page = (DOCS / "how_to" / "alerts.md").read_text("utf-8")
    for name, text in alert_blocks().items():
        assert f"<!-- {name}: written by `make docs` -->" in page
        assert text.startswith("| ")
        assert len({row.count(" | ") for row in text.splitlines() if not row.startswith("|---")}) == 1, name


def test_causes_without_an_alert_are_listed():
    left_out = {cause for alert in catalog.alerts().values() for cause in alert.left_out}
    assert set(re.findall(r"\[`(\w+)`\]", alert_blocks()["not alerted"])) == left_out

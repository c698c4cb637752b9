"""What is kept in the repository for those who only want the files, and the tables of the page on alerts."""

from unslow.catalog.alerts import Alert, alerts
from unslow.catalog.recordings import recordings
from unslow.show.dashboard import dashboard_text
from unslow.show.rules import RULE_FILE, long_rule_tests_text, rule_tests_text, rules_text
from unslow.think.fleet.alert_rules import alert_name, not_alerted


def fleet_files() -> dict[str, str]:
    """The files of deploy/prometheus by name."""
    return {
        RULE_FILE: rules_text(),
        "unslow.tests.yml": rule_tests_text(),
        "unslow.long.tests.yml": long_rule_tests_text(),
        "unslow.dashboard.json": dashboard_text(),
    }


def alert_blocks() -> dict[str, str]:
    """The generated parts of docs/how_to/alerts.md by the name of their block."""
    return {"alerts": _table(), "alerts apart": _apart(), "not alerted": _left_out(), "recordings": _recordings()}


def _table() -> str:
    rows = [_row(name, alert) for name, alert in alerts().items() if not alert.every_cause]
    return "\n".join(
        ["| alert | cause | after | severity | where its numbers come from |", "|---|---|---|---|---|", *rows]
    )


def _row(name: str, alert: Alert) -> str:
    page = f"[`{alert.cause}`](../reference/causes/{alert.cause}.md)" if alert.cause else f"[below](#{name})"
    called = alert_name(name, alert, alert.cause)
    return f"| `{called}` | {page} | {alert.hold} | {alert.severity} | {alert.source} |"


def _apart() -> str:
    """Those that name no cause have their page here, where their runbooks lead."""
    told = [(name, alert) for name, alert in alerts().items() if not alert.cause and not alert.every_cause]
    rows = [f'| <a id="{name}"></a>`{alert_name(name, a, "")}` | {a.text} | {a.to_do} |' for name, a in told]
    return "\n".join(["| alert | what it means | what to do |", "|---|---|---|", *rows])


def _left_out() -> str:
    rows = [f"| [`{cause}`](../reference/causes/{cause}.md) | {why} |" for cause, why in not_alerted().items()]
    return "\n".join(["| cause | why not |", "|---|---|", *rows])


def _recordings() -> str:
    rules = [rule for group in recordings().values() for rule in group.rules]
    rows = [f"| `{rule.record}` | {rule.why} |" for rule in rules]
    return "\n".join(["| series | what it is |", "|---|---|", *rows])

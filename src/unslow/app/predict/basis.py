"""What a prediction was learned from, in one line."""

from unslow.app.predict.cases import Case
from unslow.catalog.learned_speed import spread_of
from unslow.think.speed.report import BasisShown


def basis_of(case: Case) -> BasisShown:
    """The measurements that the interval of such a case comes from."""
    spread = spread_of(case.group, case.question.setting.backend)
    text = (
        f"catalog: {spread.configurations} configurations on {spread.devices} devices of this kind ({case.group}); "
        f"median error there {spread.median_error:.0%}"
    )
    return BasisShown(
        kind="catalog", text=text, group=case.group, configurations=spread.configurations, devices=spread.devices,
        median_error=spread.median_error,
    )  # fmt: skip

"""The buyer's questions: which devices, which one to choose, own or rent, what fits which memory."""

from collections.abc import Callable
from typing import Any

from unslow.commands import choose, cost, devices, tiers
from unslow.commands.choose import ChooseRequest
from unslow.commands.cost import CostRequest
from unslow.commands.devices import DevicesRequest
from unslow.commands.tiers import TiersRequest
from unslow.web.desk import Desk
from unslow.web.endpoint import Endpoint, Question
from unslow.web.parameters import parameters_of
from unslow.web.questions import answered

_FILES = ("prices",)
"""What names a file is for the command line."""
DEVICES = parameters_of(DevicesRequest, without=_FILES, names={"names": "device"}, commas=("names", "price"))
CHOOSE = parameters_of(ChooseRequest, without=_FILES, commas=("price", "among"))
COST = parameters_of(CostRequest, without=_FILES, commas=("device", "price", "rent", "api"))
TIERS = parameters_of(TiersRequest)


def _html(name: str, answer: Callable[[Desk, Question], Any]) -> Callable[[Desk, Question], str]:
    def drawn(desk: Desk, question: Question) -> str:
        from unslow.show._clean import cleaned  # noqa: PLC0415
        from unslow.show._html import buyers  # noqa: PLC0415

        return str(getattr(buyers, name)(cleaned(answer(desk, question))))

    return drawn


_ASKED = (
    ("devices", "Devices side by side", "unslow.think.buy.report:DevicesReport", DevicesRequest, devices, DEVICES),
    ("choose", "What to buy for a model", "unslow.think.buy.choice_report:ChoiceReport", ChooseRequest, choose, CHOOSE),
    ("cost", "Own, rent or an API", "unslow.think.buy.cost_report:CostReport", CostRequest, cost, COST),
    ("tiers", "What fits which memory", "unslow.think.buy.tiers_report:TiersReport", TiersRequest, tiers, TIERS),
)
ENDPOINTS = tuple(
    endpoint
    for name, words, kind, request, command, parameters in _ASKED
    for answer in [answered(request, command.answer)]
    for endpoint in (
        Endpoint(f"/{name}", words, kind, answer, parameters, slow=True),
        Endpoint(
            f"/{name}.html", f"{words}, as HTML", "", _html(name, answer), parameters, media="text/html", slow=True
        ),
    )
)

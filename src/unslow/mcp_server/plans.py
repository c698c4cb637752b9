"""Plans that were made in this session, so that an agent need not write them out again to apply one."""

from collections import OrderedDict

from unslow.app.progress import Progress
from unslow.commands._request import Request
from unslow.facts.errors import UserError
from unslow.mcp_server.tool import Answer, Tool
from unslow.think.plan.report import PlanReport

MOST = 16
"""More than an agent compares; older ones are forgotten."""


class Plans:
    """The last plans, by their ids."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, PlanReport] = OrderedDict()
        self._made = 0

    def keep(self, plan: PlanReport) -> str:
        """The id of a plan from now on."""
        self._made += 1
        name = f"plan-{self._made}"
        self._kept[name] = plan
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return name

    def found(self, word: str | None) -> str | PlanReport | None:
        """The plan of an id; any other word is a file; UserError for a standard input that nobody has."""
        if word == "-":
            raise UserError("plan: there is no standard input to read", "give a plan_id or a file")
        return self._kept.get(word, word) if word is not None else None

    def keeping(self, tool: Tool) -> Tool:
        """The tool plan, whose answers then have an id."""

        def kept(asked: Request, progress: Progress) -> Answer:
            made = tool.answer(asked, progress)
            if not isinstance(made.report, PlanReport) or not made.report.options:
                return made
            name = self.keep(made.report)
            return Answer(made.report, f"{made.text}\n\nplan_id: {name}", {"plan_id": name})

        return tool._replace(answer=kept)

"""Whether somebody else was answered at the same time: then a speed is not that of a server alone.

A llama-server names the last task of every slot, so that two looks tell even of a request that came and went between.
"""

from typing import Any

import msgspec

from unslow.look.bench.guest import Plan, Target
from unslow.look.json_fields import objects
from unslow.look.system import LookError, System

Tasks = dict[str, str]
"""What each slot of the others works on, or worked on last."""


class Company:
    """Looks at the slots of others before and after a request."""

    def __init__(self, system: System, target: Target, plan: Plan) -> None:
        self._system, self._target, self._slot = system, target, plan.slot
        self._before: Tasks | None = None

    def look(self) -> None:
        """Remember who is there now."""
        self._before = self._tasks()

    def came(self) -> bool:
        """Whether others were answered since the last look; False where the server does not tell."""
        after = self._tasks()
        if self._before is None or after is None:
            return False
        return after != self._before or any(task.endswith(_AT_WORK) for task in after.values())

    def _tasks(self) -> Tasks | None:
        if self._slot is None or not self._target.runtime.endswith("llama.cpp"):
            return None
        try:
            return msgspec.convert(self._system.ask("slots of others", self._read), Tasks)
        except (LookError, msgspec.ValidationError):
            return None

    def _read(self) -> Tasks:
        slots = objects({"slots": self._target.server(self._system.live()).json("/slots")}, "slots")
        return {str(slot.get("id")): _task(slot) for slot in slots if slot.get("id") != self._slot}


_AT_WORK = " at work"


def _task(slot: dict[str, Any]) -> str:
    task = slot.get("id_task")
    return f"{task if type(task) is int else ''}{_AT_WORK if slot.get('is_processing') is True else ''}"

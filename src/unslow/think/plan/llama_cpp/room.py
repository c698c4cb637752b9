"""Whether what runs has room for the conversations that a plan is asked for."""

from unslow.facts.blueprint import Blueprint
from unslow.facts.snapshot import Case
from unslow.think.plan.goal import Goal
from unslow.think.plan.llama_cpp.running import context_of, settings_of


def room_lacking(case: Case, goal: Goal, plan: Blueprint) -> str:
    """A word on what runs having less room than is asked for, by tokens or by conversations; empty where it has."""
    one, now = context_of(case), settings_of(case)
    wanted = min(goal.context, plan.count("context_length") or goal.context)  # no conversation gets longer than that
    users = goal.work.users
    if not one or (one >= wanted and now.slots >= users and now.context >= wanted * users):
        return ""
    several = f" {users} of" if users > 1 else ""
    has = f"{now.slots} conversations in {now.context:,} tokens" if now.slots > 1 else f"one of {one:,} tokens"
    return f"what runs has no room for{several} {goal.context:,} tokens: it has slots for {has}"

"""What a measurement must know of a server to be a good guest."""

from typing import Any

from unslow.facts.runtime import Runtime
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.system import LookError, System

OK = 200


def key_of(runtime: Runtime) -> str | None:
    """The API key that the server itself was started with, where its command line or environment can be read."""
    settings = parse_settings(runtime.command.value_or([]), runtime.environment.value_or({}))
    return settings["api_key"].value.split(",")[0] if "api_key" in settings else None


def headers(api_key: str | None) -> dict[str, str]:
    """The headers of a request."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def unused_slot(system: System, url: str, api_key: str | None) -> int | None:
    """A slot that has held no conversation yet, so that measuring on it pushes none out; None where there is none."""
    try:
        answer = system.request("GET", f"{url}/slots", headers=headers(api_key))
        return parse_unused_slot(answer.json()) if answer.status == OK else None
    except LookError:
        return None


def parse_unused_slot(slots: Any) -> int | None:
    """The last slot without a task, or with one that only measured; llama-server names a task where there was one."""
    idle = [s for s in slots if isinstance(s, dict) and not s.get("is_processing")] if isinstance(slots, list) else []
    free = [s.get("id") for s in idle if "id_task" not in s or _only_measured(s)]
    return next((i for i in reversed(free) if isinstance(i, int)), None)


def _only_measured(slot: dict[str, Any]) -> bool:
    """Whether the last task ran past the end of its answer: benchmarks do, conversations don't."""
    parameters = slot.get("params")
    return isinstance(parameters, dict) and parameters.get("ignore_eos") is True

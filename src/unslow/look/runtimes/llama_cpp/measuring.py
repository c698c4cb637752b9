"""What a measurement must know of a server to be a good guest."""

from typing import Any

from unslow.facts.runtime import Runtime
from unslow.look.runtimes.llama_cpp.arguments import parse_settings
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
    """The last slot without a task: llama-server names a task only where there has been one, and prefers low slots."""
    if not isinstance(slots, list):
        return None
    fresh = [s.get("id") for s in slots if isinstance(s, dict) and not s.get("is_processing") and "id_task" not in s]
    return next((i for i in reversed(fresh) if isinstance(i, int)), None)

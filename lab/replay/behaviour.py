"""How a replayed server behaves: how fast, how late, whom it lets in, how it fails."""

from typing import NamedTuple

from lab.replay.hostile import MODES


class Behaviour(NamedTuple):
    """What is asked of it; nothing asked is a server in good health."""

    latency_s: float = 0.0
    """Before every answer."""
    tokens_per_s: float | None = None
    """Answers are made up at this pace; without it, those that were recorded are given as they came."""
    prompt_tokens_per_s: float = 2000.0
    api_key: str = ""
    """Whoever does not send it gets a 401."""
    fail: str = ""
    """One of `FAILURES`."""
    fail_at: str = ""
    """How the paths start that it fails at; all do without it."""
    done_first: bool = False
    """Whether it does what it is asked for, and only fails to say so."""


FAILURES: dict[str, str] = {
    "loading": "503 to everything, as while a model is being loaded",
    "missing": "404 to everything",
    **{name: mode.meaning for name, mode in MODES.items()},
}


def checked(behaviour: Behaviour) -> Behaviour:
    """The behaviour; ValueError where it asks for what there is not."""
    if behaviour.fail and behaviour.fail not in FAILURES:
        raise ValueError(f"no failure is called {behaviour.fail!r}; there are {', '.join(sorted(FAILURES))}")
    for name in ("tokens_per_s", "prompt_tokens_per_s"):
        pace = getattr(behaviour, name)
        if pace is not None and not 0 < pace < float("inf"):
            raise ValueError(f"{name} must be more than nought")
    return behaviour

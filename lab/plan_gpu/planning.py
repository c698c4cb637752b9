"""What `unslow plan` recommends on this machine, as it is now, for one work."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from lab.plan_gpu.arguments import arguments
from lab.plan_gpu.cases import LONG, LONG_TOKENS, SHORT, SHORT_TOKENS, Case

LIMIT_S = 60
PROMPTS = {SHORT: SHORT_TOKENS, LONG: LONG_TOKENS}
_KEPT = ("name", "settings", "speed", "devices", "host", "commands", "risk", "quality")


def planned(case: Case, prompt: str, model: Path, prompt_tokens: int, more: list[str]) -> dict[str, Any]:
    """A row: the recommended option and its words for llama-server, or why there is none."""
    command = [
        *(sys.executable, "-m", "unslow", "plan", str(model), "--context", str(case.context)),
        *("--prompt", str(prompt_tokens), "--answer", str(case.answer_tokens), "--json", *more),
    ]
    began = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        told = parsed(done.stdout) if done.stdout.strip() else {"trouble": done.stderr[-800:] or "it said nothing"}
    except (OSError, subprocess.TimeoutExpired) as error:
        told = {"trouble": str(error)}
    about = {"kind": "plan", "case": case.name, "prompt": prompt, "prompt_tokens": prompt_tokens}
    return {**about, "seconds": round(time.monotonic() - began, 2), **told}


def parsed(text: str) -> dict[str, Any]:
    """What is kept of a report, with the arguments; `trouble` where nothing is recommended."""
    try:
        report = json.loads(text)
        number = report.get("recommended")
        if number is None:
            return {"trouble": f"{report.get('verdict')}: {report.get('reason') or report.get('hint')}"}
        option = report["options"][number]
        words = arguments(option.get("settings") or option["changes"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return {"trouble": f"{type(error).__name__}: {error}"}
    kept = {key: option.get(key) for key in _KEPT}
    return {"verdict": report.get("verdict"), "arguments": words, **kept, "searched": report.get("searched")}


def predicted(row: dict[str, Any], figure: str) -> float | None:
    """The middle of a predicted figure of a plan's row."""
    rate = (row.get("speed") or {}).get(figure) or {}
    value = rate.get("mid") if isinstance(rate, dict) else rate
    return float(value) if isinstance(value, int | float) else None

"""The file of rows: each is there as soon as it is known."""

import json
from pathlib import Path
from typing import Any

Key = tuple[str, str, int, str]
"""Sweep, case, round and arm."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Every row; a last line that was cut off is left out."""
    rows = []
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def key_of(row: dict[str, Any]) -> Key:
    """What a life is known by."""
    return row.get("sweep", ""), row["case"], row["round"], row["arm"]


class Sheet:
    """Rows that are there, and those to come."""

    def __init__(self, path: Path, *, go_on: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.rows = read_rows(path) if go_on else []
        self._path = path
        if not go_on:
            path.write_text("")
        elif path.exists() and not path.read_bytes().endswith(b"\n"):
            self._append("\n")  # the line that was cut off stays alone

    def write(self, row: dict[str, Any]) -> None:
        """At once."""
        self.rows.append(row)
        self._append(json.dumps(row) + "\n")

    def _append(self, text: str) -> None:
        with self._path.open("a") as file:
            file.write(text)

    def done(self) -> set[Key]:
        """The lives that were lived."""
        return {key_of(row) for row in self.rows if row["kind"] == "life"}

    def plan(self, case: str, prompt: str) -> dict[str, Any] | None:
        """The last plan of a case that recommended something."""
        found = [
            row
            for row in self.rows
            if row["kind"] == "plan" and (row["case"], row["prompt"]) == (case, prompt) and "trouble" not in row
        ]
        return found[-1] if found else None

    def life_s(self, case: str, arm: str) -> float | None:
        """How long such a life took before."""
        took = [r["wall_s"] for r in self.rows if r["kind"] == "life" and (r["case"], r["arm"]) == (case, arm)]
        return float(max(took)) if took else None

"""A Prometheus that answers what a real one answered, each query by its name."""

import json
from pathlib import Path

from unslow.fleet.prometheus.answers import QueryAnswer, Series

ANSWERS = Path(__file__).parent / "answers"


class Recorded:
    """The answers of one file; `changed` puts others in their place, and `failing` names queries that are refused."""

    def __init__(self, name, changed=None, failing=()):
        told = json.loads((ANSWERS / f"{name}.json").read_text("utf-8"))
        self.now_s, self.answers, self.failing = told["now_s"], told["answers"] | (changed or {}), failing
        self.asked = []

    def instant(self, query, at=None, about=""):
        self.asked.append(about)
        if about in self.failing:
            return QueryAnswer([], "query timed out")
        return QueryAnswer([Series(dict(labels), value) for labels, value in self.answers.get(about, ())])

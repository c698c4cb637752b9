"""What the user asked of `unslow verify`."""

import os
from typing import NamedTuple

from unslow.app.bench.request import check_writable
from unslow.app.manners import Manners
from unslow.app.read_target import is_live
from unslow.commands.verify import VerifyRequest
from unslow.facts.errors import UserError
from unslow.facts.verified import Work
from unslow.think.verify.answers import ALLOWED

SECONDS = 120.0
_FORMS = "such as `unslow verify --before URL --after URL`; `unslow verify --help` has the other forms"


class Request(NamedTuple):
    """Two servers, or one and what was kept of the other."""

    before: str | None = None
    after: str | None = None
    """Each is the URL or process id of a server that runs, or a command line that starts one."""
    save: str | None = None
    against: str | None = None
    plan: str | None = None
    option: int | None = None
    prompt: int | None = None
    kept: int | None = None
    answer: int | None = None
    seconds: float = SECONDS
    together: bool = False
    allow: float | None = None
    answers: bool = True
    """Whether answers are compared too."""
    model: str | None = None
    manners: Manners = Manners()

    @classmethod
    def of(cls, asked: VerifyRequest) -> "Request":
        """The request that was asked for; UserError where they make no sense."""
        names = [name for name in cls._fields if name not in ("manners", "answers")]
        manners = Manners(evict=asked.evict, api_key=asked.api_key or os.environ.get("UNSLOW_API_KEY"))
        request = cls(**{name: getattr(asked, name) for name in names}, answers=not asked.no_answers, manners=manners)
        if asked.target is not None:
            if request.after is not None:
                raise UserError("a TARGET and --after name the same server twice", "give one of them")
            request = request._replace(after=asked.target)
        check_writable("--save", request.save)
        check_writable("--output", asked.output)
        return _checked(request)

    def work(self, usual: Work) -> Work:
        """The request to measure with: what the flags say, and otherwise what is usual here."""
        return Work(
            prompt_tokens=usual.prompt_tokens if self.prompt is None else self.prompt,
            kept_tokens=usual.kept_tokens if self.kept is None else self.kept,
            answer_tokens=usual.answer_tokens if self.answer is None else self.answer,
        )

    def allowed(self, floor: float | None = None) -> float:
        """The rise of perplexity that passes."""
        return self.allow if self.allow is not None else ALLOWED if floor is None else floor


def _checked(request: Request) -> Request:
    if request.save and request.against:
        raise UserError("--save measures the first, --against the second", "give them one after the other")
    if request.option is not None and not request.plan:
        raise UserError("--option is a number of a plan", "name the plan too: --plan plan.json")
    alone = request.save or request.against
    if alone and (request.before or request.together):
        raise UserError("--save and --against measure one server at a time", "name only its URL")
    if alone and not request.after and not request.plan:
        raise UserError("which server?", "such as `unslow verify --save before.json http://127.0.0.1:8080`")
    if not alone and not request.plan and not (request.before and request.after):
        raise UserError("two servers are needed, one before the change and one after it", _FORMS)
    if request.together and (is_live(request.before) or is_live(request.after)) and not request.plan:
        raise UserError("--together is for two command lines: servers that run are together already", "leave it out")
    return request

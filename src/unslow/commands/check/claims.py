"""Whether claims are possible: one from the command line, or every sentence of a text."""

import sys
from functools import lru_cache

from unslow import __version__
from unslow.commands.predict.cases import catalog_expectation
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.system import LookError, System
from unslow.think.claims.check import LONGEST_TEXT
from unslow.think.claims.check import check_claim as judge_claim
from unslow.think.claims.check import check_text as judge_text
from unslow.think.claims.report import CheckReport, JudgedClaim, worst
from unslow.think.physics.terms import Interval

LONGEST_CLAIM = 2000
_EXAMPLES = (
    'name the model, the hardware, and a speed or size: "Llama 3.3 70B Q4_K_M on an RTX 4090 at 72 tok/s", '
    '"70B Q4 fits in 24 GB", "Llama 3 8B at 32K context needs 16 GB of KV cache"'
)


def check_text(text: str) -> list[JudgedClaim]:
    """Every claim of a text with its verdict, and the speed to expect where that can be predicted."""
    return judge_text(text, expected_speed)


def answer(text: str, *, several: bool) -> CheckReport:
    """The answer on one claim, or on each sentence of a text; UserError where there is nothing to judge."""
    longest = LONGEST_TEXT if several else LONGEST_CLAIM
    if not text.strip():
        raise UserError("no claim given", _EXAMPLES)
    if "\0" in text or text.count("�") > len(text) / 10:
        raise UserError("not a text", _EXAMPLES)
    if len(text) > longest:
        hint = "for a whole text use --file FILE"
        raise UserError(f"a claim must have at most {longest:,} characters (got {len(text):,})", hint)
    claims = tuple(check_text(text) if several else judge_claim(text, expected_speed))
    if not claims:
        raise UserError("nothing to check: no speed, size, bandwidth, layers or speed-up found", _EXAMPLES)
    return CheckReport(unslow_version=__version__, verdict=worst(claims), claims=claims)


def read_claims(system: System, path: str) -> str:
    """The text of a file, or of standard input for `-`; UserError where it can't be read, or is none."""
    if path == "-":
        if sys.stdin is None:
            raise UserError("no standard input", "give the claim itself, or --file FILE")
        return decode_text(sys.stdin.buffer.read(LONGEST_TEXT * 4), "standard input")
    try:
        data = system.read_bytes(path, LONGEST_TEXT * 4)
    except LookError as error:
        raise UserError(error.why, error.how_to_get or "give a file of text, or - for standard input") from error
    return decode_text(data, path)


def decode_text(data: bytes, name: str) -> str:
    """Bytes as text; UserError where they are none."""
    if b"\0" in data[:4096]:
        raise UserError(f"{name} is not text", "give a file of text: Markdown, or one claim on each line")
    return data.decode("utf-8", "replace")


@lru_cache(maxsize=1024)
def expected_speed(model: str, quant: str, device: str, count: int, context: int) -> Interval | None:
    """What the predictor expects of one stream; None where it abstains, and of several GPUs split nobody knows how."""
    if count > 1:
        return None
    try:
        found = catalog_expectation(model, quant, device, gpus=count, context=context)
    except UserError:
        return None
    return None if isinstance(found, Unknown) else found.decode

"""The label matchers that a user gives, read and written anew so that nothing else gets into a query."""

import re

from unslow.facts.errors import UserError

_MATCHER = re.compile(
    r"""\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"'`,{}\\]+))\s*(?:,|$)"""
)
_ESCAPED = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
_LONGEST = 2000
_EXAMPLE = """write it as in Prometheus: 'cluster="a",env=~"prod.*"'"""


def parse_matchers(text: str) -> str:
    """The matchers as they go into a selector, without braces; UserError where they are none."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    if len(inner) > _LONGEST:
        raise UserError(f"the matchers are longer than {_LONGEST} characters", 'use a pattern: env=~"prod.*"')
    found, at = [], 0
    while at < len(inner):
        one = _MATCHER.match(inner, at)
        if one is None or one[1] == "__name__":
            raise UserError(f"{inner[at : at + 40]!r} is no label matcher", _EXAMPLE)
        found.append(f"{one[1]}{one[2]}{_quoted(one)}")
        at = one.end()
    return ",".join(found)


def _quoted(one: re.Match[str]) -> str:
    value = next(value for value in one.groups()[2:] if value is not None)
    if one[5] is None:
        value = re.sub(r"\\(.)", _plain, value, flags=re.DOTALL)
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'


def _plain(escape: re.Match[str]) -> str:
    """What is meant by an escape; one that PromQL does not know, such as those of patterns, is taken as written."""
    return _ESCAPED.get(escape[1], escape[0])

"""The small expressions of the layouts: whole numbers, names, arithmetic, comparisons, and, or, not, if.

A name that nothing tells is None. None makes every sum and product None and every comparison false, so that a
condition on what a model lacks does not hold, and a setting made from it is left out.
"""

import ast
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeAlias

Value: TypeAlias = int | float | str | None


class Names(Protocol):
    """Whoever knows what the names stand for."""

    def number(self, name: str) -> Value:
        """What a name stands for; None where nothing tells."""


Expression: TypeAlias = Callable[[Names], Value]

_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.AST], Callable[[Any, Any], Value]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@cache
def expression(text: str) -> Expression:
    """The function of the names that the text stands for; ValueError where it holds anything else."""
    return _compiled(_parsed(text))


@cache
def names_in(text: str) -> frozenset[str]:
    """The names that the text asks for."""
    return frozenset(node.id for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name))


def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _compiled(node: ast.expr) -> Expression:
    match node:
        case ast.Constant(value=int() as value):
            return lambda _: value
        case ast.Name(id=name):
            return lambda names: names.number(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _both(_ARITHMETIC[type(op)], _compiled(left), _compiled(right), otherwise=None)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _both(_COMPARISONS[type(op)], _compiled(left), _compiled(right), otherwise=False)
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp() | ast.IfExp():
            return _choice(node)
    raise ValueError(f"an expression of a layout can't hold {ast.unparse(node)}")


def _both(apply: Callable[[Any, Any], Value], left: Expression, right: Expression, *, otherwise: Value) -> Expression:
    def value(names: Names) -> Value:
        a, b = left(names), right(names)
        return otherwise if a is None or b is None else apply(a, b)

    return value


def _choice(node: ast.UnaryOp | ast.BoolOp | ast.IfExp) -> Expression:
    if isinstance(node, ast.UnaryOp):
        inner = _compiled(node.operand)
        return lambda names: not inner(names)
    if isinstance(node, ast.IfExp):
        asked, yes, no = _compiled(node.test), _compiled(node.body), _compiled(node.orelse)
        return lambda names: yes(names) if asked(names) else no(names)
    together = all if isinstance(node.op, ast.And) else any
    parts = [_compiled(part) for part in node.values]
    return lambda names: together(part(names) for part in parts)

"""Models made up from a shape and the layout of their architecture, with no file; and the shape of any model."""

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unslow.catalog.architectures import Layout, layouts
from unslow.catalog.models import WellKnown
from unslow.catalog.quants import find_mix, quants
from unslow.facts.model import Blueprint, HfShape, LayerKind, MetadataValue, Model, Tensor
from unslow.facts.values import Known
from unslow.think.memory.llama_cpp.hyperparameters import Hyper
from unslow.think.quantise import types_of

ExpressionValue: TypeAlias = int | float | str | None
Expression: TypeAlias = Callable[["Numbers"], ExpressionValue]
Stated = Mapping[str, ExpressionValue | list[int]]
_NEEDED = ("layers", "width", "heads", "kv_heads", "vocabulary", "parameters")
_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], ExpressionValue]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.AST], Callable[[Any, Any], ExpressionValue]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class UntypedTensor(NamedTuple):
    """A tensor that has no type yet; the length of a row comes first."""

    name: str
    shape: tuple[int, ...]


class Numbers:
    """What the shape states, else what the layout works out, once it is asked for.

    A list has one number for each layer and is repeated where it is shorter; the model as a whole sees the largest.
    """

    def __init__(self, stated: Stated, derived: Mapping[str, str], layer: int | None = None) -> None:
        self._stated = stated
        self._derived = derived
        self._layer = layer
        self._known: dict[str, ExpressionValue] = {"layer": layer}

    def number(self, name: str) -> ExpressionValue:
        """The number of that name; None where unknown."""
        if name not in self._known:
            value = self._stated.get(name)
            if isinstance(value, list):
                value = max(value) if self._layer is None else value[self._layer % len(value)]
            elif value is None and name in self._derived:
                value = expression(self._derived[name])(self)
            self._known[name] = value
        return self._known[name]


def made_up(model: WellKnown, quant: str) -> Blueprint:
    """The model with the types that llama-quantize would give it; UserError where there is no such mix."""
    layout, stated = layouts()[model.architecture], msgspec.structs.asdict(model.shape)
    named = [*made_up_tensors(layout, stated)]
    keys: dict[str, MetadataValue] = {
        "general.architecture": model.architecture,
        "general.name": model.name,
        "general.file_type": find_mix(quant).file_type[0].id,
        **made_up_metadata(model.architecture, layout, stated),
    }
    types = types_of(model.architecture, keys, named, quant)
    return Blueprint(
        architecture=model.architecture,
        metadata=keys,
        tensors=[
            Tensor(name, type_, shape, quants()[type_].bytes_of(shape[0]) * math.prod(shape[1:]))
            for (name, shape), type_ in zip(named, types, strict=True)
        ],
        vocabulary=model.shape.vocabulary,
    )


def made_up_metadata(architecture: str, layout: Layout, stated: Stated) -> dict[str, MetadataValue]:
    """Every key that the layout has a value for, under the architecture's name."""
    whole = Numbers(stated, layout.numbers)
    each = [Numbers(stated, layout.numbers, layer) for layer in range(int(whole.number("layers") or 0))]
    # The names that differ from layer to layer: those given as lists, and all that are worked out from one
    varying = {"layer", *(name for name, value in stated.items() if isinstance(value, list))}
    derived = {name: names_in(text) for name, text in layout.numbers.items() if stated.get(name) is None}
    while more := {name for name, used in derived.items() if used & varying} - varying:
        varying |= more
    metadata: dict[str, MetadataValue] = {}
    for key, setting in layout.metadata.items():
        value: MetadataValue | None = setting
        if isinstance(setting, str):
            stands_for, differs = expression(setting), names_in(setting) & varying
            value = [int(stands_for(numbers) or 0) for numbers in each] if differs else stands_for(whole)
        if value is not None:
            metadata[f"{architecture}.{key}"] = value
    return metadata


def made_up_tensors(layout: Layout, stated: Stated) -> Iterator[UntypedTensor]:
    """The tensors of the model as a whole, then those of each layer."""
    layers = range(int(Numbers(stated, layout.numbers).number("layers") or 0))
    for layer in (None, *layers):
        numbers = Numbers(stated, layout.numbers, layer)
        for group in layout.groups:
            wanted = [name for name in group.tensors if ("{}" in name) is (layer is not None)]
            if not wanted or (group.when and not expression(group.when)(numbers)):
                continue
            for name in wanted:
                text = group.tensors[name]
                sizes = [expression(part)(numbers) for part in text.split(",")]
                shape = tuple(size for size in sizes if isinstance(size, int) and size > 0)
                if len(shape) < len(sizes):
                    raise ValueError(f"{name} is {text}, which makes {sizes}: the shape lacks a number")
                yield UntypedTensor(name.format(layer), shape)


@cache
def expression(text: str) -> Expression:
    """The function of the names that the text of a layout stands for; ValueError where it holds anything else.

    Whole numbers, names, arithmetic, comparisons, and, or, not, if. A name that nothing tells is None. None makes every
    sum and product None and every comparison false, so that a condition on what a model lacks does not hold, and a
    setting made from it is left out.
    """
    return _compile_expression(ast.parse(text.strip(), mode="eval").body)


@cache
def names_in(text: str) -> frozenset[str]:
    """The names that the text asks for."""
    return frozenset(node.id for node in ast.walk(ast.parse(text.strip(), mode="eval")) if isinstance(node, ast.Name))


def _compile_expression(node: ast.expr) -> Expression:
    match node:
        case ast.Constant(value=int() as value):
            return lambda _: value
        case ast.Name(id=name):
            return lambda names: names.number(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _both(_ARITHMETIC[type(op)], _compile_expression(left), _compile_expression(right), otherwise=None)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return _both(_COMPARISONS[type(op)], _compile_expression(left), _compile_expression(right), otherwise=False)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _compile_expression(operand)
            return lambda names: not inner(names)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            asked, yes, no = (_compile_expression(part) for part in (test, body, orelse))
            return lambda names: yes(names) if asked(names) else no(names)
        case ast.BoolOp(values=values):
            together = all if isinstance(node.op, ast.And) else any
            parts = [_compile_expression(part) for part in values]
            return lambda names: together(part(names) for part in parts)
    raise ValueError(f"an expression of a layout cannot contain {ast.unparse(node)}")


def _both(
    apply: Callable[[Any, Any], ExpressionValue], left: Expression, right: Expression, *, otherwise: ExpressionValue
) -> Expression:
    def value(names: "Numbers") -> ExpressionValue:
        a, b = left(names), right(names)
        return otherwise if a is None or b is None else apply(a, b)

    return value


def shape_of_blueprint(plan: Blueprint) -> HfShape:
    """The numbers of a decoder."""
    hyper, number, layers = Hyper(plan), plan.count, range(Hyper(plan).layers)
    latent = number("attention.kv_lora_rank") if hyper.is_latent else 0
    attending = [il for il in layers if hyper.attends(il)] or [0]
    windowed = [il for il in attending if hyper.layer_windows[il]]
    usual = (windowed or attending)[0]
    full = next((il for il in attending if not hyper.layer_windows[il]), usual)
    expert = number("expert_feed_forward_length", number("feed_forward_length")) if hyper.experts else 0
    recurrent = [il for il in layers if hyper.recurrent[il]]
    # The weights of one recurrent layer without its feed-forward and its norms
    mixing = [t for il in recurrent[:1] for t in plan.layer_tensors[il] if not t.name.startswith("ffn_")]
    mixer_elements = sum(math.prod(t.shape) for t in mixing if not t.name.endswith("norm.weight"))
    differs = bool(windowed) and hyper.key_length(full) != hyper.key_length(usual)
    return HfShape(
        layers=hyper.layers,
        width=hyper.width,
        vocabulary=hyper.vocabulary,
        heads=max(hyper.heads),
        kv_heads=max(hyper.heads) if latent else hyper.kv_heads[usual],
        key_length=number("attention.key_length_mla") if latent else hyper.key_length(usual),
        value_length=number("attention.value_length_mla") if latent else hyper.value_length(usual),
        feed_forward=number("feed_forward_length"),
        gated=any(t.name.endswith(("ffn_gate.weight", "ffn_gate_exps.weight")) for t in plan.tensors),
        tied="output.weight" not in plan.by_name,
        positions=number("context_length"),
        kinds=_kinds(hyper),
        window=hyper.window,
        full_kv_heads=hyper.kv_heads[full] if differs else 0,
        full_key_length=hyper.key_length(full) if differs else 0,
        shared_kv_layers=max(0, hyper.layers - hyper.layers_with_cache),
        experts=hyper.experts,
        experts_used=max(hyper.experts_used),
        expert_width=expert,
        shared_width=number("expert_shared_feed_forward_length", number("expert_shared_count") * expert),
        leading_dense=hyper.leading_dense,
        expert_step=max(1, number("interleave_moe_layer_step", 1)),
        kv_rank=latent,
        rope_length=number("rope.dimension_count") if latent else 0,
        query_rank=number("attention.q_lora_rank") if latent else 0,
        state=hyper.memory_elements if recurrent else 0,
        convolution=hyper.convolution_elements // max(1, number("ssm.conv_kernel", 2) - 1) if recurrent else 0,
        convolution_length=number("ssm.conv_kernel", 4),
        recurrent_parameters=mixer_elements,
        attention_bias=any(t.name.endswith("attn_q.bias") for t in plan.tensors),
        head_norms=any(t.name.endswith("attn_q_norm.weight") for t in plan.tensors),
    )


def _kinds(hyper: Hyper) -> tuple[LayerKind, ...]:
    def kind(layer: int) -> LayerKind:
        if hyper.recurrent[layer]:
            return LayerKind.RECURRENT
        if not hyper.attends(layer):
            return LayerKind.BARE
        return LayerKind.WINDOW if hyper.layer_windows[layer] else LayerKind.FULL

    kinds = tuple(kind(layer) for layer in range(hyper.layers))
    return () if set(kinds) == {LayerKind.FULL} else kinds


def shape_of_facts(model: Model) -> HfShape | None:
    """Its numbers; None where one of them is missing, or experts make one number for the feed-forward too few."""
    if model.experts.value_or(0) > 1 or not all(isinstance(getattr(model, name), Known) for name in _NEEDED):
        return None
    layers, width, heads = (int(getattr(model, name).value_or(0)) for name in ("layers", "width", "heads"))
    vocabulary, kv_heads = int(model.vocabulary.value_or(0)), int(model.kv_heads.value_or(0))
    if min(layers, width, heads, kv_heads, vocabulary) <= 0:
        return None
    length = int(model.key_length.value_or(width // heads))
    tied = model.output_tied.value_or(default=False)
    tables = vocabulary * width * (1 if tied else 2)
    attention = width * length * 2 * (heads + kv_heads)
    left = (int(model.parameters.value_or(0)) - tables) / layers - attention
    if left <= 0:
        return None
    return HfShape(
        layers=layers, width=width, vocabulary=vocabulary, heads=heads, kv_heads=kv_heads, key_length=length,
        value_length=int(model.value_length.value_or(length)), feed_forward=round(left / (3 * width)), tied=tied,
        positions=int(model.context_trained.value_or(0)),
    )  # fmt: skip

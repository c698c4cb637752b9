"""A model's tensors in a few lines: those that repeat from layer to layer are one line, so that a snapshot stays small.

A line is `NAME TYPE SHAPE BYTES [LAYERS]`, with `{}` for the layer: `blk.{}.attn_q.weight Q4_K 4096x4096 9437184 0-31`.
"""

import re
from collections.abc import Iterable, Iterator

from unslow.facts.blueprint import Tensor

MOST_LAYERS = 4096
MOST_TENSORS = 65_536
_LAYER = re.compile(r"^blk\.(\d{1,4})\.")
_LINE = re.compile(r"(\S+) (\S+) (\d{1,15}(?:x\d{1,15}){0,7}|-) (\d{1,18})(?: ([\d,-]+))?")


def packed(tensors: Iterable[Tensor]) -> list[str]:
    """The lines; the order of tensors is not kept."""
    groups: dict[tuple[str, str, tuple[int, ...], int], list[int]] = {}
    for tensor in tensors:
        match = _LAYER.match(tensor.name)
        name = tensor.name if match is None else f"blk.{{}}.{tensor.name[match.end() :]}"
        key = (name.replace(" ", "_"), tensor.type.replace(" ", "_"), tensor.shape, tensor.bytes)
        groups.setdefault(key, []).extend([int(match[1])] if match else [])
    return [_line(*key, layers) for key, layers in groups.items()]


def _line(name: str, kind: str, shape: tuple[int, ...], size: int, layers: list[int]) -> str:
    text = f"{name} {kind} {'x'.join(map(str, shape)) or '-'} {size}"
    return f"{text} {','.join(_spans(sorted(layers)))}" if layers else text


def _spans(numbers: list[int]) -> Iterator[str]:
    """Runs of numbers as `0-31`."""
    start = previous = numbers[0]
    for number in [*numbers[1:], -1]:
        if number != previous + 1:
            yield str(start) if start == previous else f"{start}-{previous}"
            start = number
        previous = number


def unpacked(lines: Iterable[str]) -> list[Tensor]:
    """The tensors; ValueError where a line is none, or where there are more than any model has."""
    tensors: list[Tensor] = []
    for line in lines:
        match = _LINE.fullmatch(line)
        if not match:
            raise ValueError(f"{line[:80]!r} describes no tensor")
        shape = () if match[3] == "-" else tuple(int(n) for n in match[3].split("x"))
        names = [match[1]] if match[5] is None else [match[1].replace("{}", str(n), 1) for n in _layers(match[5])]
        tensors += (Tensor(name, match[2], shape, int(match[4])) for name in names)
        if len(tensors) > MOST_TENSORS:
            raise ValueError(f"more than {MOST_TENSORS} tensors")
    return tensors


def _layers(text: str) -> Iterator[int]:
    for span in text.split(","):
        start, _, end = span.partition("-")
        first, last = int(start), int(end or start)
        if not 0 <= first <= last < MOST_LAYERS:
            raise ValueError(f"{span!r} names no layers")
        yield from range(first, last + 1)

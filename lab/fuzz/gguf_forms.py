"""GGUF headers as fields: built soundly, then with some fields made wrong. The dice may be those of hypothesis."""

import struct
from math import prod
from random import Random
from typing import NamedTuple

EDGES = [0, 1, 2, 7, 8, 31, 32, 33, 255, 256, 1024, 1025, 4096, 4097, 65_535, 65_536, 2_000_000, 2**24, 2**31 - 1]
EDGES += [2**31, 2**32 - 1, 2**32, 2**40, 2**50, 2**60, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 32, 2**64 - 1]
KEYS = ["general.architecture", "general.name", "general.alignment", "general.file_type", "split.count", "split.no"]
KEYS += ["llama.block_count", "llama.vocab_size", "llama.attention.head_count", "llama.attention.head_count_kv"]
KEYS += ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.merges", "tokenizer.chat_template"]
NAMES = ["token_embd.weight", "output.weight", "output_norm.weight", "blk.0.attn_q.weight", "blk.1.attn_q.weight"]
NAMES += [
    "blk.0.ffn_up_exps.weight",
    "blk.*.ffn_up.weight",
    "blk.12.ffn_gate.3.weight",
    "blk.01.x",
    "blk.9999999.x",
    "",
]
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144), 14: (256, 210), 30: (1, 2), 39: (32, 17)}
BLOCKS |= {99: (1, 3), 4: (32, 17)}  # types that nobody knows, or only some
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


class Field(NamedTuple):
    """A few bytes of the header; those with a code of `struct` are numbers."""

    data: bytes
    code: str = ""


class Form:
    """A header in the making."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        version = dice.choice((3, 3, 3, 2, 1))
        self.order = "<" if dice.random() < 0.9 else ">"
        self.length = "I" if version == 1 else "Q"
        self.fields = [Field(b"GGUF")]
        self.number("I", version)

    def number(self, code: str, value: int) -> None:
        """A whole number."""
        self.fields.append(Field(struct.pack(self.order + code, value), code))

    def text(self, value: bytes) -> None:
        """A length and bytes."""
        self.number(self.length, len(value))
        self.fields.append(Field(value))

    def whole(self) -> None:
        """A sound header of a few keys and tensors."""
        keys, names = self._some(KEYS), self._some(NAMES)
        self.number(self.length, len(names))
        self.number(self.length, len(keys))
        for key in keys:
            self.text(key.encode())
            self._value(key)
        offset = 0
        for name in names:
            offset = self._info(name, offset)
        self.fields.append(Field(bytes(self.dice.choice((0, 1, 31, 64, 1000)))))

    def _some(self, of: list[str]) -> list[str]:
        return self.dice.sample(of, self.dice.randint(0, min(6, len(of))))

    def _value(self, key: str) -> None:
        if key == "general.alignment":
            self.number("I", 4)
            return self.number("I", 32)
        kind = self.dice.choice((*SIZES, STRING, STRING, ARRAY, ARRAY, ARRAY))
        self.number("I", kind)
        return self._array() if kind == ARRAY else self._scalar(kind)

    def _scalar(self, kind: int) -> None:
        if kind == STRING:
            return self.text(self._letters(self.dice.choice((0, 3, 40, 300, 5000))))
        return self.fields.append(Field(self.dice.randbytes(SIZES[kind])))

    def _array(self) -> None:
        kind = self.dice.choice((*SIZES, STRING, STRING, STRING))
        count = self.dice.choice((0, 1, 3, 40, 100, 1100))
        self.number("I", kind)
        self.number(self.length, count)
        if kind == STRING:
            self._strings(count)
        else:
            self.fields.append(Field(self._letters(count * SIZES[kind])))

    def _strings(self, count: int) -> None:
        lengths = [self.dice.choice((0, 3, 7, 8, 12, 47, 48, 260)) for _ in range(min(count, 8))]
        for n in range(min(count, 8)):
            self.text(self._letters(lengths[n]))
        rest = struct.pack(self.order + self.length, 5) + b"token"
        self.fields.append(Field(rest * max(0, count - 8)))

    def _letters(self, count: int) -> bytes:
        return (self.dice.randbytes(8) * (count // 8 + 1))[:count]

    def _info(self, name: str, offset: int) -> int:
        kind = self.dice.choice(tuple(BLOCKS))
        shape = [
            BLOCKS[kind][0] * self.dice.randint(1, 4),
            *(self.dice.randint(1, 9) for _ in range(self.dice.randint(0, 3))),
        ]
        self.text(name.encode())
        self.number("I", len(shape))
        for size in shape:
            self.number(self.length, size)
        self.number("I", kind)
        self.number("Q", offset)
        size = prod(shape) // BLOCKS[kind][0] * BLOCKS[kind][1]
        return offset + size + -size % 32 + 32 * self.dice.choice((0, 0, 0, 0, 0, 0, 0, 1))


def sound(dice: Random) -> Form:
    """A header as a writer would write it."""
    form = Form(dice)
    form.whole()
    return form


def unsound(dice: Random) -> bytes:
    """A header with a few numbers changed, some bytes flipped, or its end lost; one in eight is left as it is."""
    form = sound(dice)
    fields, numbers = form.fields, [n for n, f in enumerate(form.fields) if f.code]
    for _ in range(dice.choice((0, 1, 1, 1, 2, 2, 3, 8))):
        at = dice.choice(numbers)
        data, code = fields[at]
        fields[at] = Field(_edge(dice, form.order + code, data), code)
    whole = bytearray(b"".join(f.data for f in fields))
    for _ in range(dice.choice((0, 0, 0, 1, 2, 5))):
        _spoil(dice, whole)
    return bytes(whole)


def _edge(dice: Random, code: str, data: bytes) -> bytes:
    """A number at one of the edges, or one beside the right one."""
    most = 256 ** len(data)
    value = struct.unpack(code, data)[0] + dice.choice((-1, 1)) if dice.random() < 0.3 else dice.choice(EDGES)
    return struct.pack(code, value % most)


def _spoil(dice: Random, data: bytearray) -> None:
    at = dice.randrange(len(data) + 1)
    match dice.randrange(4):
        case 0:
            data[at : at + 1] = dice.randbytes(1)
        case 1:
            del data[at : at + dice.choice((1, 4, 8, 100))]
        case 2:
            data[at:at] = dice.randbytes(dice.choice((1, 4, 8)))
        case _:
            del data[at:]

"""What LM Studio itself writes around the lines of llama.cpp: how it resolved the GPU settings, what it found free."""

import re

from unslow.facts.machine import Gpu, Machine
from unslow.facts.runtime import ALL_LAYERS
from unslow.facts.values import estimated_fact, reported_fact
from unslow.look.logs.dialect import LineDialect, NamedReader, Rules, needles_of

RULES = Rules["LmStudioReader"]()
_GB = 10**9
_MOST_GPUS = 64
_NUMBER = r"(\d{1,9}(?:\.\d{1,6})?)"
_GIGABYTES = rf"{_NUMBER} GB"


class LmStudioReader(NamedReader):
    """One pass over a text that holds lines of LM Studio."""

    program = "LM Studio"

    def __init__(self) -> None:
        super().__init__()
        self.gpus: dict[int, Gpu] = {}
        self.free_bytes: dict[int, int] = {}

    def recognise(self, line: str, where: str) -> bool:
        """Read a line; below the first that names LM Studio, its settings too."""
        known = False
        for rule in RULES:  # the lines below one that names the program do not name it again
            if rule.needles[0] in line and (rule.own or self.named) and (found := rule.pattern.search(line)):
                self.named = self.named or where
                rule.take(self, found, where)
                known = True
        return known

    def machine(self) -> Machine:
        return Machine(gpus=reported_fact(tuple(self.gpus.values()), self.named)) if self.gpus else Machine()


for _name in ("[LM Studio]", "[LM STUDIO SERVER]"):  # the line tells who writes, and no more
    RULES.note("", _name, rf"{re.escape(_name)} ")
for _fact, _label, _pattern, _read in (
    ("kv_offload", "Offload KV Cache to GPU: ", r"(ON|OFF)", lambda switch: switch == "ON"),
    ("gpu_layers_set", "Num Offload Layers: ", r"(max|\d{1,5})", lambda n: ALL_LAYERS if n == "max" else int(n)),
    ("tensor_overrides", "Num CPU Expert Layers: ", r"(\d{1,5})", lambda n: [f"--n-cpu-moe {n}"] if int(n) else []),
    ("main_gpu", "Main GPU: ", r"(\d{1,3})", int),
):
    RULES.note(_fact, _label, rf"{_label}{_pattern}\b", _read, own=False)
RULES.note(
    "tensor_split",
    "Tensor Split: ",
    r"Tensor Split: \[([\d., ]{1,400})\]",
    # a single zero stands for no split
    lambda text: shares if any(shares := [float(part) for part in re.findall(_NUMBER, text)]) else None,
    own=False,
)
RULES.note("context_set", "Model load size estimate", r"context length '(\d{1,9})'", int)
RULES("Total: ", rf"^\W*Total: {_GIGABYTES}\s*$", own=False)(
    lambda reader, found, where: reader.facts.update(asked_bytes=estimated_fact(round(float(found[1]) * _GB), where))
)


@RULES(
    "(Used: ",
    rf"GPU (\d{{1,3}}): (.{{1,100}}?) \(Used: {_GIGABYTES}, Total: {_GIGABYTES}, Free: {_GIGABYTES}\)",
    own=False,
)
def _gpu(reader: LmStudioReader, found: re.Match[str], where: str) -> None:
    index = int(found[1])
    used, total, free = (round(float(found[group]) * _GB) for group in (3, 4, 5))
    if index >= _MOST_GPUS:
        return
    reader.gpus[index] = Gpu(
        index=index,
        name=reported_fact(found[2].strip(), where),
        vram_total_bytes=estimated_fact(total, where),
        vram_used_bytes=estimated_fact(used, where),
        vram_free_bytes=estimated_fact(free, where),
    )
    reader.free_bytes[index] = free
    reader.facts["available_bytes"] = estimated_fact(sum(reader.free_bytes.values()), where)


RULES.note(
    "slots context_length kv_unified",
    "::load config: ",
    r"::load config: n_parallel=(\d{1,6}) n_ctx=(\d{1,9}) kv_unified=(true|false)",
    lambda text: int(text) if text.isdecimal() else text == "true",
    own=False,
)
DIALECT = LineDialect(needles_of(RULES), LmStudioReader)

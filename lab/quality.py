"""What KV cache types and quants cost a trained model in answers; `make docs` shows it beside the published figures.

    python -m lab.quality --server LLAMA_SERVER --model MODEL.gguf [--perplexity LLAMA_PERPLEXITY] [--made FOLDER]

Everything is held against the file as it is with a cache in 16 bits. The server is asked as `unslow verify` asks it:
greedy answers, and the probabilities of a text of 800 tokens. With --perplexity, llama.cpp's own program reads pieces
of 2048 tokens beside it, half documentation of this project and half its source, and compares all probabilities.
FOLDER has quants that were made from the file, each named by its quant (`llama-quantize --allow-requantize MODEL.gguf
FOLDER/Q3_K_M.gguf Q3_K_M`). These were quantised twice and without an importance matrix, so they lose more than a quant
made from the original; one with more bits than the file gains nothing. The speed of the machine plays no part, so other
work beside it does no harm. One line of JSON for each setting and program is added to the file of --save; settings that
it has already are not measured again. With --catalog DATE the caches are printed as a file of the catalog.
"""

import argparse
import hashlib
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from unslow.catalog.quality import sample_openings
from unslow.commands._output import Silent
from unslow.commands.bench.server import place_of
from unslow.commands.verify.server import MOST_PLACES, Extent, MeasuredServer, compare_answers
from unslow.facts.verification import Side, Work
from unslow.look.models.gguf import model_facts, read_gguf
from unslow.look.system.live import LiveSystem
from unslow.think.plan.quality import Bounds, Cost, Loss, agreement, increase_words, quality_cost
from unslow.think.stats.answers import judge_answers
from unslow.think.stats.published import published_change

ROOT = Path(__file__).parents[1]
MEASURED = Path(__file__).parent / "data" / "quality_qwen25_coder_15b.jsonl"
CACHES = (
    "q8_0/q8_0", "q5_1/q5_1", "q4_0/q4_0", "q4_0/f16", "f16/q4_0", "q8_0/q4_0", "q5_0/q5_0", "q4_1/q4_1", "q5_1/f16",
    "f16/q5_1", "q8_0/f16", "f16/q8_0",
)  # fmt: skip
"""Keys and values."""
PLAIN = "f16/f16"
CONTEXT, PIECES = 2048, 3
PIECE_CHARS = 6000  # of one file, so that all pieces together hold both kinds
DOCS = ("physics", "planning", "diagnosis", "limits")
CODE = ("judge/findings", "plan/free_memory", "stats/repeats", "case/memory")
ANSWER_TOKENS = 24
PATIENCE_S = 600.0
Z = 1.96  # of a 95 % interval
NUMBER = r"\s*:\s*(-?[\d.]+)(?: ±\s*([\d.]+))?"
"""A figure of llama-perplexity, and its standard error."""
FIGURES = {
    "ppl": r"Mean PPL\(Q\)",
    "ppl_before": r"Mean PPL\(base\)",
    "log_ratio": r"Mean ln\(PPL\(Q\)/PPL\(base\)\)",
    "kl": r"Mean +KLD",
    "kl_999": r"99\.9% +KLD",
    "same_choice": r"Same top p",
}
By = Literal["unslow", "llama-perplexity"]


class Setting(NamedTuple):
    """What is held against the plain file."""

    name: str
    file: Path
    cache: str = PLAIN

    @property
    def flags(self) -> list[str]:
        """Of the server and of llama-perplexity."""
        keys, values = self.cache.split("/")
        return ["-m", str(self.file), "-ctk", keys, "-ctv", values, "-fa", "on"]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One setting by one program."""

    setting: str
    by: By
    model: str
    quant: str
    architecture: str
    parameters: int
    program: str  # The version of llama.cpp
    tokens: int  # At how many the probabilities were compared
    context: int
    text: str  # A sign of the text
    ppl_before: float
    ppl: float
    increase: tuple[float, float, float]
    """Of the perplexity as a share: the lower end of the 95 % interval, the figure, the upper end."""
    same_choice: float | None  # The share of tokens at which both choose the same
    kl: float | None = None
    kl_999: float | None = None
    questions: int = 0
    begin_alike: float | None = None
    together: float | None = None
    together_before: float | None = None
    verdict: str = ""

    @property
    def bounds(self) -> Bounds:
        """The increase as the comparison with published figures takes it."""
        return Bounds(*self.increase)


class Named(NamedTuple):
    """The model that everything is measured of."""

    model: str
    quant: str
    architecture: str
    parameters: int


def read_name(path: Path) -> Named:
    """By the header of its file."""
    model = model_facts(read_gguf(LiveSystem(), str(path)))
    return Named(
        model.name.need().removesuffix(" GGUF"),
        model.quant.need(),
        model.architecture.need(),
        int(model.parameters.need()),
    )


def corpus() -> str:
    """Documentation and source of this project in turns, a piece of each file."""
    pairs = (
        (f"docs/explanation/{page}.md", f"src/unslow/think/{module}.py")
        for page, module in zip(DOCS, CODE, strict=True)
    )
    return "\n\n".join((ROOT / path).read_text("utf-8")[:PIECE_CHARS] for pair in pairs for path in pair)


def settings_of(model: Path, made: Path | None) -> Iterator[Setting]:
    """Every cache of the file, then every quant that was made from it."""
    yield from (Setting(f"cache {cache}", model, cache) for cache in CACHES)
    yield from (Setting(file.stem, file) for file in (sorted(made.glob("*.gguf")) if made else ()))


def ask_server(server: str, setting: Setting, *, twice: bool = False) -> Side:
    """Its answers and the probabilities that it gives the usual text, from a server that is started for it."""
    line = shlex.join([server, *setting.flags, "-c", "4096", "-np", "1"])
    place = place_of(None, "", Silent(), bandwidth=False)
    party = MeasuredServer(line, place)
    with party.open_bencher(Silent()) as bencher:
        extent = Extent(ANSWER_TOKENS, MOST_PLACES, len(sample_openings()), PATIENCE_S)
        compare_answers(bencher, party, extent, twice=twice)
    return party.side(Work())


def compared_sides(setting: Setting, of: Named, before: Side, after: Side) -> Measured:
    """As `unslow verify` tells it."""
    told = judge_answers(before, after)
    seen = told.perplexity
    if seen is None:
        sys.exit(f"{setting.name}: {told.because}; {after.not_scored} {after.failures[-1:]}")
    tokens = len(before.scored.tokens) if before.scored else 0
    return Measured(
        setting=setting.name,
        by="unslow",
        **of._asdict(),
        program=before.runtime_version,
        tokens=seen.places,
        context=tokens,
        text="catalog/samples/reading.toml",
        ppl_before=seen.before,
        ppl=seen.after,
        increase=(seen.increase.low, seen.increase.mid, seen.increase.high),
        same_choice=seen.same_choice,
        questions=told.questions,
        begin_alike=told.begin_alike,
        together=told.together,
        together_before=told.together_before,
        verdict=told.verdict,
    )


class Reader:
    """llama-perplexity over the corpus; the probabilities of the plain file stay beside it for all others."""

    def __init__(self, program: str, plain: Setting, folder: Path, pieces: int) -> None:
        self.program, self.text, self.pieces = program, corpus(), pieces
        folder.mkdir(parents=True, exist_ok=True)
        self.sign = hashlib.sha256(self.text.encode()).hexdigest()[:16]
        self._corpus, self._base = folder / f"{self.sign}.txt", folder / f"{self.sign}.{plain.file.stem}.logits"
        self._corpus.write_text(self.text, "utf-8")
        if not self._base.exists():
            part = self._base.with_suffix(".part")
            self._run(plain, ["--kl-divergence-base", str(part)])
            part.rename(self._base)

    def _run(self, setting: Setting, words: list[str]) -> str:
        line = [self.program, *setting.flags, "-f", str(self._corpus), "-c", str(CONTEXT), "-b", str(CONTEXT)]
        done = subprocess.run(
            [*line, "--chunks", str(self.pieces), *words], capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{shlex.join(line)} failed: {done.stderr[-400:]}")
        return done.stdout + done.stderr

    def compare(self, setting: Setting, of: Named, version: str) -> Measured:
        """One setting against the plain file."""
        said = self._run(setting, ["--kl-divergence", "--kl-divergence-base", str(self._base)])
        figures = parse_divergence(said)
        middle, error = figures["log_ratio"]
        reach = Z * error
        return Measured(
            setting=setting.name,
            by="llama-perplexity",
            **of._asdict(),
            program=version,
            tokens=self.pieces * (CONTEXT // 2),  # of each piece the second half counts
            context=CONTEXT,
            text=f"documentation and source of unslow, {self.sign}",
            ppl_before=figures["ppl_before"][0],
            ppl=figures["ppl"][0],
            increase=(math.expm1(middle - reach), math.expm1(middle), math.expm1(middle + reach)),
            same_choice=figures["same_choice"][0] / 100,
            kl=figures["kl"][0],
            kl_999=figures["kl_999"][0],
        )


def parse_divergence(text: str) -> dict[str, tuple[float, float]]:
    """The figures of `llama-perplexity --kl-divergence` with their standard errors; exits where one is missing."""
    found = {}
    for name, words in FIGURES.items():
        match = re.search(words + NUMBER, text)
        if match is None:
            sys.exit(f"llama-perplexity did not print {name}: {text[-600:]}")
        found[name] = float(match[1]), float(match[2] or 0)
    return found


def read_rows(path: Path) -> list[Measured]:
    """What was measured last, one for each setting and program."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rows = [msgspec.json.decode(line, type=Measured) for line in lines if line]
    return list({(row.setting, row.by): row for row in rows}.values())


def published_loss(row: Measured) -> Loss:
    """What others published about the step from the plain file to this setting."""

    def cost(quant: str, cache: str) -> Cost:
        return quality_cost(quant, *cache.split("/"), row.parameters, row.architecture, rotated=True)

    cache = row.setting.removeprefix("cache ")
    after = cost(row.quant, cache) if cache != row.setting else cost(row.setting, PLAIN)
    return published_change(cost(row.quant, PLAIN), after)


def table(rows: Sequence[Measured]) -> str:
    """The rows for a page, what was published beside what was measured, and whether the two agree."""
    if not rows:
        return "not measured yet"
    head = f"{'setting':17}{'published':>10}  {'at 2048 tokens: perplexity':28}{'KL':>8}{'same':>7}"
    lines = [f"{head}  {'verify: perplexity':26}{'same':>5}{'answers':>9}  agree"]
    for setting in dict.fromkeys(row.setting for row in rows):
        by = {row.by: row for row in rows if row.setting == setting}
        deep, short = by.get("llama-perplexity"), by.get("unslow")
        best = deep or short
        assert best is not None  # a setting has a row
        loss = published_loss(best)
        agrees, _ = agreement(best.bounds, loss)
        known = "much" if loss.much else "-" if loss.increase is None else increase_words(loss.increase)
        cells = [f"{setting:17}{'≥' * loss.at_least + known:>10}", f"{_rise(deep):28}"]
        cells[-1] += f"{deep.kl or 0:8.4f}{_share(deep.same_choice, 1):>7}" if deep else f"{'-':>8}{'-':>7}"
        told = f"{_share(short.same_choice):>5}{_share(short.together):>9}" if short else f"{'-':>5}{'-':>9}"
        cells.append(f"{_rise(short):26}{told}")
        lines.append("  ".join([*cells, {True: "yes", False: "NO", None: "cannot tell"}[agrees]]))
    return "\n".join([*lines, "", f"{rows[0].model} {rows[0].quant}, llama.cpp {rows[0].program}"])


def _rise(row: Measured | None) -> str:
    if row is None:
        return "-"
    low, middle, high = map(increase_words, row.increase)
    return f"{middle} ({low} to {high})"


def _share(share: float | None, digits: int = 0) -> str:
    return "-" if share is None else f"{share:.{digits}%}"


def catalog_table(rows: Sequence[Measured], date: str) -> str:
    """The caches that llama-perplexity measured, as a file of src/unslow/catalog/quality."""
    found = [row for row in rows if row.by == "llama-perplexity" and row.setting.startswith("cache ")]
    seen = found[0]
    size = re.search(r"([\d.]+)B\b", seen.model)  # a file may hold its output matrix twice
    parameters = int(float(size[1]) * 1e9) if size else seen.parameters
    lines = [
        f'source = "lab/quality.py with llama.cpp {seen.program}: {seen.tokens:,} tokens of own text"',
        f'date = "{date}"\nmodel = "{seen.model} {seen.quant}"\narchitecture = "{seen.architecture}"',
        f'parameters = {parameters:_}\ntext = "{seen.text}"\ncontext = {seen.context}',
        f'weights = "{seen.quant}"\nppl_full = {seen.ppl_before}\nown = true\nrows = [',
    ]
    for row in found:
        keys, values = row.setting.removeprefix("cache ").split("/")
        halves = ", ".join(f'{half} = "{kind}"' for half, kind in (("keys", keys), ("values", values)) if kind != "f16")
        error = (row.increase[2] - row.increase[0]) / 2 / Z
        figures = f"ppl = {row.ppl}, kl = {row.kl}, kl_999 = {row.kl_999}, error = {error:.6f}"
        lines.append(f"  {{ {halves}, {figures}, rotated = true }},")
    return "\n".join([*lines, "]", ""])


def main() -> None:
    """Measure all settings, or those that have a word in their name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help="llama-server; without it the answers are not compared")
    parser.add_argument("--perplexity", help="llama-perplexity")
    parser.add_argument("--model", type=Path, default=Path())
    parser.add_argument("--made", type=Path, metavar="FOLDER", help="quants that were made from it")
    parser.add_argument("--pieces", type=int, default=PIECES, help="of the text, 2048 tokens each; the first time most")
    parser.add_argument("--only", default="", help="the setting of this name")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/unslow_quality"))
    parser.add_argument("--save", type=Path, default=MEASURED, metavar="FILE")
    parser.add_argument("--catalog", metavar="DATE", help="print the file for the catalog instead of measuring")
    args = parser.parse_args()
    if args.catalog:
        sys.stdout.write(catalog_table(read_rows(args.save), args.catalog))
        return
    known = {(row.setting, row.by) for row in read_rows(args.save)}
    of, plain, sides = read_name(args.model), Setting("plain", args.model), args.scratch / "plain.json"
    args.scratch.mkdir(parents=True, exist_ok=True)
    for setting in settings_of(args.model, args.made):
        if args.only and args.only != setting.name:
            continue
        if args.server and (setting.name, "unslow") not in known:
            if not sides.exists():
                sides.write_bytes(msgspec.json.encode(ask_server(args.server, plain, twice=True)))
            before = msgspec.json.decode(sides.read_bytes(), type=Side)
            keep(compared_sides(setting, of, before, ask_server(args.server, setting)), args.save)
        if args.perplexity and (setting.name, "llama-perplexity") not in known:
            said = subprocess.run([args.perplexity, "--version"], capture_output=True, text=True, check=False)
            build = re.search(r"(?s)build (\d+)|version: (\d+) ", said.stdout + said.stderr)
            version = f"b{build[1] or build[2]}" if build else "unknown"
            reader = Reader(args.perplexity, plain, args.scratch, args.pieces)
            keep(reader.compare(setting, of, version), args.save)


def keep(row: Measured, path: Path) -> None:
    """Add a row to the file, and say it."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(msgspec.to_builtins(row)) + "\n")
    sys.stdout.write(f"{row.setting}, {row.by}: perplexity {_rise(row)}, same choice {_share(row.same_choice, 1)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

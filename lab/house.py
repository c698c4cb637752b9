"""How the code is cut: files, functions, helpers with one caller, cycles of packages; beside other Python projects.

    python -m lab.house [--trace] [--json] [memray ansible-lint guidellm textual mypy | PATH ...]

Each name is an installed package, each path the folder of one. `--trace` replays a recorded diagnosis and counts the
files and functions that it enters. A `!` marks what misses a limit of `LIMITS`; then the exit status is 1.
"""

import argparse
import ast
import importlib.util
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "unslow"
TRACED = ("diagnose", "tests/machines/lab_gpu_device_none")
LAYERS = ("look", "think", "commands")
"""Whose sub-packages shall not import each other in a circle."""
LIMITS = {
    "files": 650,
    "lines": 108_000,
    "function_lines_median": 10,
    "function_lines_p95": 32,
    "private_used_once_share": 0.18,
    "bare_participles": 0,
    "defaults_in_causes": 0,
    "imports_of_a_cause": 10,
    "llama_cpp_folders": 5,
    "files_entered": 200,
    **{f"cycles_{layer}": 0 for layer in LAYERS},
}
"""The most of each that the package may have."""
SHOWN = {
    "files": "Python files",
    "lines": "lines",
    "functions": "functions",
    "function_lines_median": "lines of a function: median",
    "function_lines_p95": "lines of a function: 95th percentile",
    "private_used_once": "private functions used exactly once",
    "private_used_once_share": "the same, of all functions",
    "private_called_once_share": "those that are called there, not passed as a value",
    "bare_participles": "public names that are a bare participle or adverb",
    "defaults_in_causes": "`value_or` in causes",
    "imports_of_a_cause": "lines of imports in a cause, at most",
    "imports_share": "imports, of all lines",
    "blank_share": "blank lines",
    "code_share": "neither import, signature, docstring, comment nor blank",
    "single_importer": "modules with a single importer",
    **{f"cycles_{layer}": f"{layer}: sub-packages in an import cycle" for layer in LAYERS},
    **{f"cycles_lazy_{layer}": f"{layer}: the same, imports in functions included" for layer in LAYERS},
    "llama_cpp_folders": "folders with modules named after llama.cpp",
    "files_entered": f"files entered by `{' '.join(TRACED)}`",
    "functions_entered": "functions entered by it",
}
MODULE_OF = {"ansible-lint": "ansiblelint"}
"""What a distribution is imported as, where it differs."""
_LLAMA = re.compile(r"(?<!o)llama(?!_bench)")
"""In the name of a folder or module; Ollama is another runtime, llama-bench another program."""
_TRACER = """
import inspect, json, runpy, sys, threading
files, functions = set(), set()
def entered(frame, event, arg):
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")  # no body of a class
    if event == "call" and is_function and code.co_filename.startswith({package!r}):
        files.add(code.co_filename)
        functions.add((code.co_filename, code.co_firstlineno, code.co_name))
sys.argv = ["unslow", *{words!r}]
threading.setprofile(entered)
sys.setprofile(entered)
try:
    runpy.run_module("unslow", run_name="__main__")
except SystemExit:
    pass
finally:
    sys.setprofile(None)
print("\\n" + json.dumps([len(files), len(functions)]))
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef
_PARTICIPLE = re.compile(
    r"[a-z]{2,}(?:ed|ly)|begun|bought|bound|broken|brought|built|caught|chosen|dealt|drawn|driven|fallen|felt|found|"
    r"given|gone|grown|held|hidden|kept|known|lent|lost|made|meant|paid|said|seen|sent|shown|sought|spent|stolen|taken|"
    r"taught|thought|thrown|told|torn|whole|won|worn|woven|written"
)
_OTHER_WORDS = re.compile(
    r"apply|assembly|bed|embed|exceed|family|feed|need|only|proceed|reply|seed|shed|speed|supply|tally"
)
_TYPES_OF_ANSWERS = ("Known", "Found", "Suspected")
"""Names that the design gives: a fact is known, a cause is found."""


class Import(NamedTuple):
    """What a module imports, by its full dotted name, and whether only inside a function."""

    of: str
    lazy: bool


class Module(NamedTuple):
    """One file of a package, parsed."""

    name: str
    lines: list[str]
    nodes: list[ast.AST]
    functions: list[Function]
    imports: list[Import]


def read_modules(package: Path) -> dict[str, Module]:
    """Every module of a package, by its dotted name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name, text = ".".join(parts[:-1] if is_package else parts), path.read_text("utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        functions = [node for node in nodes if isinstance(node, Function)]
        lazy = {id(node) for function in functions for node in ast.walk(function)}
        imports = [Import(of, id(node) in lazy) for node in nodes for of in _imported(node, parts[:-1])]
        modules[name] = Module(name, text.splitlines(), nodes, functions, imports)
    return modules


def _imported(node: ast.AST, folder: tuple[str, ...]) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        above = folder[: len(folder) - node.level + 1] if node.level else ()
        base = ".".join([*above, node.module] if node.module else above)
        return [f"{base}.{alias.name}" for alias in node.names]
    return []


def measure(package: Path, modules: dict[str, Module]) -> dict[str, float]:
    """Every measure of a package, by the names of `SHOWN`."""
    functions = [node for module in modules.values() for node in module.functions]
    lengths = sorted((node.end_lineno or node.lineno) - node.lineno + 1 for node in functions)
    lines = sum(len(module.lines) for module in modules.values())
    kinds = Counter(kind for module in modules.values() for kind in kinds_of_lines(module))
    once = len(private_used_once(modules))
    imports = imports_between(modules)
    importers = Counter(of for found in imports.values() for of in {each.of for each in found})
    return {
        "files": len(modules),
        "lines": lines,
        "functions": len(functions),
        "function_lines_median": statistics.median(lengths or [0]),
        "function_lines_p95": lengths[int(len(lengths) * 0.95)] if lengths else 0,
        "private_used_once": once,
        "private_used_once_share": once / max(1, len(functions)),
        "private_called_once_share": private_called_once(modules) / max(1, len(functions)),
        "bare_participles": len(bare_participles(modules)),
        **measure_causes([module for name, module in modules.items() if name.startswith("unslow.think.causes.")]),
        "imports_share": kinds["import"] / max(1, lines),
        "blank_share": kinds["blank"] / max(1, lines),
        "code_share": kinds["code"] / max(1, lines),
        "single_importer": sum(count == 1 for count in importers.values()),
        **{name: len(found) for name, found in named_parts(package, imports).items()},
    }


def measure_causes(causes: list[Module]) -> dict[str, float]:
    """What is counted in causes alone; nothing in other packages."""
    written = [module for module in causes if not module.name.rpartition(".")[2].startswith("_")]
    return (
        {
            "defaults_in_causes": sum(line.count(".value_or(") for module in causes for line in module.lines),
            "imports_of_a_cause": max((kinds_of_lines(module).count("import") for module in written), default=0),
        }
        if causes
        else {}
    )


def bare_participles(modules: dict[str, Module]) -> list[str]:
    """Public functions, methods and classes whose whole name is a participle or an adverb, with their module."""
    named = (Function, ast.ClassDef)
    return [
        f"{module.name}.{node.name}"
        for module in modules.values()
        for node in module.nodes
        if isinstance(node, named) and node.name not in _TYPES_OF_ANSWERS and is_bare_participle(node.name)
    ]


def is_bare_participle(name: str) -> bool:
    """Whether a name is one word that says what was done and not to what."""
    word = name[:1].lower() + name[1:]  # a class of one word too
    return bool(_PARTICIPLE.fullmatch(word)) and not _OTHER_WORDS.fullmatch(word)


def named_parts(package: Path, imports: dict[str, set[Import]]) -> dict[str, list[str]]:
    """The parts behind those measures that count a few: packages in cycles, folders of llama.cpp."""
    layers = [layer for layer in LAYERS if (package / layer).is_dir()]
    cycles = {
        f"cycles_{'lazy_' * lazy}{layer}": package_cycles(imports, f"{package.name}.{layer}", lazy=lazy)
        for layer in layers
        for lazy in (False, True)
    }
    return {**cycles, "llama_cpp_folders": llama_cpp_folders(package)}


def kinds_of_lines(module: Module) -> list[str]:
    """Of each line: blank, comment, import, signature, docstring or code."""
    kinds = ["blank" if not line.strip() else "comment" if line.strip()[0] == "#" else "code" for line in module.lines]
    for node in module.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            _mark(kinds, "import", node.lineno, node.end_lineno)
        elif isinstance(node, Function):
            _mark(kinds, "signature", node.lineno, max(node.lineno, node.body[0].lineno - 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            _mark(kinds, "docstring", node.lineno, node.end_lineno)
    return kinds


def _mark(kinds: list[str], kind: str, first: int, last: int | None) -> None:
    for number in range(first - 1, last or first):
        if kinds[number] == "code":
            kinds[number] = kind


def private_used_once(modules: dict[str, Module]) -> list[tuple[str, str]]:
    """Module and name of every private function or method with exactly one reference in the package.

    A reference is the name, bare or after a dot, in its own module, or its import by another one.
    """
    imported = Counter(each.of for module in modules.values() for each in module.imports)
    found = []
    for module in modules.values():
        used = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in module.nodes
            if isinstance(node, ast.Name | ast.Attribute)
        )
        names = [node.name for node in module.functions]
        private = [name for name in names if name.startswith("_") and not name.endswith("__")]
        found += [(module.name, name) for name in private if used[name] + imported[f"{module.name}.{name}"] == 1]
    return found


def private_called_once(modules: dict[str, Module]) -> int:
    """Of those, how many are called at their one place; the others stand in a table or are handed to a function."""
    called = {
        (module.name, node.func.id if isinstance(node.func, ast.Name) else node.func.attr)
        for module in modules.values()
        for node in module.nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    }
    return sum(each in called for each in private_used_once(modules))


def imports_between(modules: dict[str, Module]) -> dict[str, set[Import]]:
    """What each module imports of the same package: the module that is meant, not the package that holds it."""
    found: dict[str, set[Import]] = {}
    for module in modules.values():
        of = {Import(_nearest(each.of, modules), each.lazy) for each in module.imports}
        found[module.name] = {each for each in of if each.of not in {"", module.name}}
    return found


def _nearest(name: str, modules: dict[str, Module]) -> str:
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def package_cycles(imports: dict[str, set[Import]], layer: str, *, lazy: bool) -> list[str]:
    """The sub-packages of a layer that import themselves by way of others; a module straight in it counts as one."""
    edges: dict[str, set[str]] = {}
    for name, found in imports.items():
        part = _part(name, layer)
        to = {_part(each.of, layer) for each in found if lazy or not each.lazy}
        if part:
            edges.setdefault(part, set()).update(to - {"", part})
    return sorted(part for part in edges if part in _reached(part, edges))


def _part(name: str, layer: str) -> str:
    return name.removeprefix(f"{layer}.").partition(".")[0] if name.startswith(f"{layer}.") else ""


def _reached(start: str, edges: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = list(edges[start])
    while ahead:
        part = ahead.pop()
        if part not in reached:
            reached.add(part)
            ahead.extend(edges.get(part, ()))
    return reached


def llama_cpp_folders(package: Path) -> list[str]:
    """Folders that are named after llama.cpp, with all that is in them, and others that hold modules so named."""
    found = set()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        named = next((index for index, part in enumerate(parts) if _LLAMA.search(part)), None)
        if named is not None:
            found.add("/".join(parts[: named + 1] if named < len(parts) - 1 else parts[:-1]))
    return sorted(found)


def trace(words: Iterable[str] = TRACED) -> dict[str, float]:
    """How many files and functions of the package a command enters, counted in a process of its own."""
    script = _TRACER.format(package=str(PACKAGE), words=list(words))
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    files, functions = json.loads(answer.stdout.splitlines()[-1])
    return {"files_entered": files, "functions_entered": functions}


def folder_of(name: str) -> Path:
    """The folder of a package, by its path or the name of what is installed."""
    if Path(name).is_dir():
        return Path(name).resolve()
    spec = importlib.util.find_spec(MODULE_OF.get(name, name).replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{name} is not installed: {sys.executable} -m pip install --no-deps {name}")
    return Path(spec.submodule_search_locations[0])


def missed(measures: dict[str, float]) -> list[str]:
    """The limits that a package misses."""
    return [name for name, most in LIMITS.items() if measures.get(name, 0) > most]


def table(columns: dict[str, dict[str, float]], parts: dict[str, list[str]]) -> str:
    """Every measure of every package; the first is held against the limits, and names the parts that miss one."""
    first = next(iter(columns.values()))
    rows = [f"{'':58} {'limit':>8} " + " ".join(f"{name:>12}" for name in columns)]
    for name, label in SHOWN.items():
        if name in first:
            limit = _figure(name, LIMITS[name]) if name in LIMITS else ""
            mark = "!" if name in missed(first) else " "
            cells = (_figure(name, each[name]) if name in each else "" for each in columns.values())
            rows.append(f"{label:58} {limit:>8}{mark}" + " ".join(f"{cell:>12}" for cell in cells))
    rows += [f"! {SHOWN[name]}: {', '.join(parts[name])}" for name in missed(first) if name in parts]
    return "\n".join(rows)


def _figure(name: str, value: float) -> str:
    return f"{value:.1%}" if name.endswith("_share") else f"{value:,.0f}"


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(prog="python -m lab.house", description=__doc__)
    parser.add_argument("packages", nargs="*", help="installed packages or their folders, to compare with")
    parser.add_argument("--trace", action="store_true", help="count what a recorded diagnosis enters")
    parser.add_argument("--json", action="store_true", help="every measure as JSON")
    asked = parser.parse_args()
    modules = read_modules(PACKAGE)
    columns = {PACKAGE.name: measure(PACKAGE, modules) | (trace() if asked.trace else {})}
    columns |= {path.name: measure(path, read_modules(path)) for path in map(folder_of, asked.packages)}
    first = columns[PACKAGE.name]
    parts = named_parts(PACKAGE, imports_between(modules)) | {"bare_participles": bare_participles(modules)}
    report = {"limits": LIMITS, "missed": missed(first), "packages": columns, "parts": parts}
    print(json.dumps(report, indent=2) if asked.json else table(columns, parts))
    return int(bool(missed(first)))


if __name__ == "__main__":
    sys.exit(main())

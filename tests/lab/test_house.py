"""Measures of the code structure, on a small package."""

from lab.house import LIMITS, SHOWN, folder_of, imports_between, measure, missed, package_cycles, read_modules, table

ENTRY = '''"""A package."""

from small.look.paths import walk


def read(path):
    """Read it."""
    return _once(_twice(path) + _twice(path)), walk


def _once(text):
    return text


def _twice(text):
    return text


class Reader:
    """Reads."""

    def _method(self):
        # only here
        return _imported

    def run(self):
        return self._method()


def _imported():
    """For another module."""
'''


def test_a_small_package_is_measured(tmp_path):
    package = written(tmp_path)
    found = measure(package, read_modules(package))
    assert found["files"] == 8
    assert found["functions"] == 9
    assert found["private_used_once"] == 2, "_once and _method: _imported is also imported elsewhere"
    assert found["llama_cpp_folders"] == 2, "look/llama_server as a whole, and the module in think"
    assert found["single_importer"] == 2
    assert found["imports_share"] == 4 / found["lines"]


def test_lazy_imports_close_a_cycle_only_if_counted(tmp_path):
    imports = imports_between(read_modules(written(tmp_path)))
    assert package_cycles(imports, "small.look", lazy=False) == []
    assert package_cycles(imports, "small.look", lazy=True) == ["llama_server", "paths"]


def test_a_missed_limit_is_marked():
    measures = dict.fromkeys(SHOWN, 0.0)
    assert missed(measures) == []
    measures["files"] = LIMITS["files"] + 1
    assert missed(measures) == ["files"]
    rows = table({"unslow": measures}, {}).splitlines()
    assert [row.split()[:2] for row in rows if "!" in row] == [["Python", "files"]]


def test_an_installed_package_is_found_by_its_name():
    assert (folder_of("pytest") / "__init__.py").is_file()


def written(tmp_path):
    package = tmp_path / "small"
    files = {
        "__init__.py": ENTRY,
        "look/__init__.py": "",
        "look/paths.py": "def walk():\n    from small.look.llama_server.api import ask\n    return ask\n",
        "look/llama_server/__init__.py": "",
        "look/llama_server/api.py": "from small.look.paths import walk\n\n\ndef ask():\n    return walk\n",
        "look/llama_server/log.py": "",
        "think/llama_cpp.py": "from small import _imported\n\n\ndef think():\n    return _imported()\n",
        "think/ollama.py": "",
    }
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return package

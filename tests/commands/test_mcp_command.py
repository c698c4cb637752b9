import subprocess
import sys


def run_without_the_sdk(*words: str) -> "subprocess.CompletedProcess[str]":
    code = f"import sys; sys.modules['mcp'] = None; from unslow.__main__ import main; sys.exit(main({list(words)!r}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_missing_mcp_package_says_how_to_install_it():
    done = run_without_the_sdk("mcp")
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs the package mcp, version 2" in done.stderr
    assert "pipx install --force '.[mcp]'" in done.stderr

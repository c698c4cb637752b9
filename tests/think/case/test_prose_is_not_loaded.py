import subprocess
import sys


def test_causes_do_not_import_the_prose_reader() -> None:
    code = "import sys; from unslow.think.causes import all_causes; all_causes(); sys.exit('unslow.think.text' in sys.modules)"  # noqa: E501
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

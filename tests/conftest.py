"""Lets every test import the stand-ins of `doubles`, the firing cases of causes, and the recorded rows of `lab`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "think" / "causes"), str(HERE.parent)]

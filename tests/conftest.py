"""Lets every test import the stand-ins of `doubles`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

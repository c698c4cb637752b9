"""Lets every test import the stand-ins of `doubles`, the firing cases of causes, and the recorded rows of `lab`."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "think" / "causes"), str(HERE.parent)]

settings.register_profile("unslow", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unslow")  # a busy machine is slow, and no test is wrong for that

"""`python -m unslow`."""

import sys

from unslow.cli import main

sys.exit(main())

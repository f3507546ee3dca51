"""``python -m servebook`` is the console command."""

import sys

from servebook.cli import main

sys.exit(main())

"""Runs one `farmiq` command in a process that kills itself with -9 right before or right after a named call.

python -m support.dying_command MODULE:QUALNAME before|after N  dlq replay ...
"""

import sys

from farmiq.cli.__main__ import main
from support.dying import die_at

if __name__ == "__main__":
    target, moment, on_call, *arguments = sys.argv[1:]
    die_at(target, moment, int(on_call))
    sys.argv = ["farmiq", *arguments]
    main()

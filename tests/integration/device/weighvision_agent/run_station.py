"""`weighvision-agent` in a process of its own; with arguments, one that kills itself at an appointed moment.

python run_station.py [MODULE:QUALNAME before|after N]
"""

import asyncio
import os
import sys

from farmiq.device.weighvision_agent.main import serve
from farmiq.kit import lifecycle, logging
from support.dying import die_at

if __name__ == "__main__":
    if sys.argv[1:]:
        target, moment, call = sys.argv[1:]
        die_at(target, moment, int(call))
    logging.configure("INFO")
    sys.exit(asyncio.run(lifecycle.run([("weighvision-agent", serve)], os.environ)))

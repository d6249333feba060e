"""tools/load-api for some seconds: many clients at once, of which some are slow, leave or send nonsense."""

import os
import subprocess
import sys

from modellib import make_model
from swarmlib import workplace

OPTIONS = "--seconds 6 --streams 50 --idle 500 --parallel 8 --context 128 --threads 1 --max-memory 64M"

with workplace() as place:
    tool = os.path.join(os.environ["SOURCE"], "tools", "load-api")
    sys.exit(subprocess.run([sys.executable, tool, make_model(place), *OPTIONS.split()], check=False).returncode)

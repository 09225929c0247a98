"""All the servers at once: ``python tests/servers start|stop``.

What can't be brought is left out and named in the end; what doesn't start fails the command.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from servers import shared
from servers.api_server import ApiServer
from servers.mariadb import MariaDB
from servers.process import Failed
from servers.programs import Missing, say
from servers.prometheus import Prometheus

KINDS: tuple[type[shared.Server], ...] = (MariaDB, Prometheus, ApiServer)


def main() -> int:
    """Run the command for each server in turn, whatever becomes of the others; return the exit status."""
    if sys.argv[1:] not in (["start"], ["stop"]):
        sys.exit(f"usage: python {Path(__file__).parent} start|stop")
    command = shared.COMMANDS[sys.argv[1]]
    left_out, failed = [], False
    for kind in KINDS:
        try:
            command(kind)
            say(f"{kind.name} {'runs' if command is shared.start else 'is stopped'}")
        except Missing as missing:
            left_out.append(f"{kind.name} is left out, and tests that need it will be skipped: {missing}")
        except Failed as error:
            failed = True
            say(f"{kind.name}: {error}")
    for line in left_out:
        say(line)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

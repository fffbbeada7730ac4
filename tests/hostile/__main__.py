"""Send hostile requests to a server; check the answers and the remaining threads and files.

    python -m tests.hostile               2,000 requests
    python -m tests.hostile --count 300 --seed 7
    python -m tests.hostile --only 93     one request again, with its answer

The seed and the number determine a request. The exit status is 1 if a check failed.
"""

import argparse
import sys
from collections import Counter

from tests.hostile import driver
from tests.hostile.cases import case_of
from tests.model.server import running

SEED = 23


def main() -> int:
    """Run the program, and return the exit status."""
    parser = argparse.ArgumentParser("python -m tests.hostile", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="requests (%(default)s)")
    parser.add_argument("--warm-up", type=int, default=500, help="the first of them (%(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of all requests (%(default)s)")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this request")
    arguments = parser.parse_args()
    with running(*driver.FLAGS) as server:
        if arguments.only is not None:
            case = case_of(arguments.seed, arguments.only, 9)
            statuses = Counter[int]()
            problem = driver.check(server, case, statuses)
            sent = b"".join(case.pieces)
            sys.stdout.write(f"{case.kind}: {sent[:500]!r}\n{dict(statuses)} {problem}\n")
            sys.stdout.write(server.messages()[-3000:])
            return bool(problem)
        warm_up = min(arguments.warm_up, arguments.count // 2)
        report = driver.run(server, arguments.seed, arguments.count, warm_up)
    sys.stdout.write(f"{report}\n")
    return bool(report.failures)


if __name__ == "__main__":
    sys.exit(main())

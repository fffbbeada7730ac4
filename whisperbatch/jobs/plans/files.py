"""Where a plan and what belongs to it are.

talks.plan                the plan
talks.plan.work/          leases, languages and results
talks.plan.report.json    the report of the last `join`
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from whisperbatch.errors import OptionError
from whisperbatch.jobs.plans.format import Plan, from_lines, to_lines
from whisperbatch.jobs.plans.recordings import absolute
from whisperbatch.jobs.plans.stores import Store

WORK: Final = ".work"
REPORT: Final = ".report.json"


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """The plan file and the objects beside it.

    Attributes:
        uri: of the plan.
        folder: the store that contains the plan.
        name: of the plan in this store.
        work: the store of leases, languages and results.
    """

    uri: str
    folder: Store
    name: str
    work: Store

    @classmethod
    def at(cls, uri: str) -> "PlanFiles":
        """Return the files of a plan.

        Raises:
            OptionError: the name is empty, or is that of a folder.
            MissingExtraError: the package for this kind of URL is not installed.
        """
        place = absolute(uri).replace("\\", "/")  # of Windows
        folder, _, name = place.rpartition("/")
        if not uri or not name or ("://" not in place and Path(place).is_dir()):
            raise OptionError(f"{uri or '(empty)'} is not the name of a plan; give a file name")
        return cls(uri, Store(folder or "/"), name, Store(f"{place}{WORK}"))

    def read(self, *, recordings: bool = True) -> Plan:
        """Return the plan.

        Args:
            recordings: whether to keep the recordings in memory.

        Raises:
            OptionError: there is no such plan, or the file is not a plan.
            WriteError: the store cannot be read.
        """
        data = self.folder.read(self.name)
        if data is None:
            raise OptionError(
                f"{self.uri}: there is no such plan; make it with: whisperbatch plan SOURCES "
                f"-o {self.uri}"
            )
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise OptionError(f"{self.uri}: is not a plan") from error
        return from_lines(text.splitlines(), self.uri, recordings=recordings)

    def write(self, plan: Plan) -> None:
        """Write the plan. An older plan of this name is replaced; another file is not.

        A plan that contains passwords or signatures is a file that only the user can read.

        Raises:
            OptionError: there is a file of this name that is not a plan.
            WriteError: the file cannot be written.
        """
        if self.folder.exists(self.name):
            try:
                self.read(recordings=False)
            except OptionError as error:
                raise OptionError(f"{error}; another file is not replaced") from error
        data = "".join(to_lines(plan)).encode()
        self.folder.write(self.name, data, private=bool(plan.with_secrets))

    def write_report(self, text: str) -> None:
        """Write the report of `join`."""
        self.folder.write(self.name + REPORT, text.encode())

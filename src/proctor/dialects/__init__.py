"""Text to suites and back: one package or file for each suite format.

In: a `SuiteSource`, the bytes of a suite and of the files it refers to. Out: a `Suite`, its cases and
problems. `DIALECTS` is the table; a `Dialect` holds everything that other packages need to know about it.
Start reading with `detection.py`, then `proctor/dialect.py`.
"""

from collections.abc import Iterator
from typing import Any

from proctor.errors import UnknownName, UsageError
from proctor.model import Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource
from proctor.registry import Registry

__all__ = ["DIALECTS", "LOSSLESS", "get_writable", "writable_names"]

LOSSLESS = "proctor"
"""The dialect that can express everything, and the default for writing suites."""


class _ForeignDialect(Dialect):
    """A dialect of another package that only recognises and reads.

    Its renderer, if there is one, is an entry point of the same name in the group `proctor.renderers`.
    """

    def __init__(self, name: str, reader: Any) -> None:
        from importlib.metadata import entry_points

        self._reader = reader
        self.renderer = next(  # type: ignore[misc]
            (point.value for point in entry_points(group="proctor.renderers", name=name)), ""
        )

    def recognises(self, head: FileHead) -> str | None:
        """Returns the answer of the reader of the package."""
        reason: str | None = self._reader.recognises(head)
        return reason

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Reads with the package's own reader."""
        items: Iterator[Suite | CaseAtLine | Problem] = self._reader.read(source)
        return items


def _adapt_dialect(name: str, dialect: Any) -> Dialect:
    return dialect if isinstance(dialect, Dialect) else _ForeignDialect(name, dialect)


DIALECTS: Registry[Dialect] = Registry(
    "dialects",
    {
        "agent_skills": "proctor.dialects.agent_skills:DIALECT",
        "agentv": "proctor.dialects.agentv.dialect:DIALECT",
        "ai_tester": "proctor.dialects.ai_tester.dialect:DIALECT",
        "deepeval": "proctor.dialects.deepeval:DIALECT",
        "fieldkit": "proctor.dialects.fieldkit.prompts:DIALECT",
        "fieldkit_qa": "proctor.dialects.fieldkit.questions:DIALECT",
        "inspect": "proctor.dialects.inspect.dialect:DIALECT",
        "meridian": "proctor.dialects.meridian.reader:DIALECT",
        "openai_evals": "proctor.dialects.openai_evals.dialect:DIALECT",
        "pramana": "proctor.dialects.pramana.reader:DIALECT",
        "proctor": "proctor.dialects.proctor.dialect:DIALECT",
        "promptfoo": "proctor.dialects.promptfoo.dialect:DIALECT",
    },
    adapt=_adapt_dialect,
)


def writable_names() -> list[str]:
    """Returns the names of the dialects in which suites can be written, sorted."""
    return [name for name, dialect in DIALECTS.load_all().items() if dialect.renderer]


def get_writable(name: str) -> Dialect:
    """Returns the dialect with that name, in which suites can be written.

    Raises:
        UnknownName: there is no such dialect.
        UsageError: the dialect can only be read.
    """
    try:
        dialect = DIALECTS.get(name)
    except UnknownName:
        raise UnknownName("dialect", name, writable_names()) from None
    if dialect.renderer:
        return dialect
    names = ", ".join(writable_names())
    raise UsageError(
        f"Proctor can read suites in the format {name!r} but cannot write them. It can write: {names}."
    )

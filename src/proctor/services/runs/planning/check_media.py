"""Refuses runs whose cases have files that their targets do not take, before the first request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from proctor.errors import UsageError
from proctor.model import Attachment, Medium, Run, TargetSpec
from proctor.plan import CaseIndex, MediaUse
from proctor.protocols import Store
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.targets import get_service, iter_kinds
from proctor.targets.kind import TargetKind

_NOUNS: Final[dict[Medium, str]] = {
    "image": "images",
    "pdf": "PDFs",
    "audio": "audio",
    "video": "videos",
    "file": "files of this type",
}


def check_media(planned_runs: Iterable[PlannedRun], store: Store) -> None:
    """Checks that the target of each selected case takes its files; a regrade sends none.

    Raises:
        UsageError: a target does not; names the first case with each kind of file that cannot be sent.
    """
    uses: set[MediaUse] = set()
    sentences: dict[str, None] = {}
    for planned_run in planned_runs:
        if planned_run.run.regrade_of is None:
            for use, sentence in _find_unsendable(planned_run, store):
                uses.add(use)
                sentences[sentence] = None
    if sentences:
        remedy = (
            "Select other cases, for example with --id or --exclude-tag, or name a target that accepts "
            f"{'it' if len(sentences) == 1 else 'them'}, such as {_suggest_target(uses)}."
        )
        raise UsageError("\n".join((*sentences, remedy)))


def _find_unsendable(planned_run: PlannedRun, store: Store) -> Iterator[tuple[MediaUse, str]]:
    """Yields each kind of file that cannot be sent, with a sentence about the first case that has one."""
    run, index = planned_run.run, planned_run.index
    for use, position in index.media.items():
        for spec in _list_specs(run, use.target):
            kind = get_service(spec).with_format(spec.params.api_format)
            if not kind.takes(use.medium, use.media_type):
                case = _describe_case(run, index, use, position, store)
                yield use, f"{case}, but the target {spec.name!r} accepts {_describe_limit(kind, use)}."


def _list_specs(run: Run, name: str | None) -> Iterator[TargetSpec]:
    """Yields the targets that may be sent a case: the run's or the one that it names, and fallbacks."""
    named = (spec for spec in run.named_targets if spec.name == name)
    specs = [run.target if name is None else next(named, run.target)]
    while specs:
        spec = specs.pop(0)
        yield spec
        specs += spec.fallbacks


def _describe_case(run: Run, index: CaseIndex, use: MediaUse, position: int, store: Store) -> str:
    case = next(iter(store.cases(run.suite.content, position))).case
    file = next(
        part
        for message in case.input
        for part in message.parts
        if isinstance(part, Attachment) and (part.medium, part.media_type) == (use.medium, use.media_type)
    )
    is_hidden = index.split_at(position) == "holdout"
    name = "a file of type" if is_hidden else f"the file {file.path[:200]!r} of type"
    return f"Case {case.id!r} of {run.suite.name} has {name} {use.media_type}"


def _describe_limit(kind: TargetKind, use: MediaUse) -> str:
    noun, types = _NOUNS[use.medium], kind.media_types.get(use.medium)
    if use.medium not in kind.media or types is None:
        return f"no {noun}"
    *first, last = sorted(types)
    return f"{noun} only as {', '.join(first)} or {last}" if first else f"{noun} only as {last}"


def _suggest_target(uses: Iterable[MediaUse]) -> str:
    """Returns the first kind of endpoint that takes all of these."""
    kinds = (
        kind
        for kind in iter_kinds()
        if kind.has_address and all(kind.takes(use.medium, use.media_type) for use in uses)
    )
    return next((kind.syntax.partition("[")[0] for kind in kinds), "cli:COMMAND LINE")

"""Finds the runs that are merged, and refuses those that do not belong together."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import settings_digest, target_digest, template_digest
from proctor.errors import UsageError
from proctor.model import Run, Shard, TargetSpec
from proctor.plurals import join_names
from proctor.protocols import Store
from proctor.services.runs.execution.variable_values import VariableValues
from proctor.services.runs.planning.earlier_run import is_unfinished_merge
from proctor.services.runs.planning.resume_settings import flag_texts

_MAX_NAMES = 5
"""The maximum number of inputs that a sentence names."""
_DIGEST_LENGTH = 19


class MergeInput(Struct, frozen=True):
    """A store whose newest runs are merged."""

    name: str
    """Its address, as the user wrote it."""
    store: Store


class RunPart(Struct, frozen=True):
    """A run that becomes a part of a merged one."""

    input: MergeInput
    run: Run

    @property
    def shard(self) -> Shard | None:
        """The shard that it is."""
        return self.run.settings.selection.shard

    @property
    def name(self) -> str:
        """Its store and its id, for messages."""
        return f"{self.input.name} (run {self.run.id})"


_RunKey = tuple[str, str, str | None]
"""The names of the suite, the target and the prompt of a run."""


def find_parts(inputs: Sequence[MergeInput], environ: Mapping[str, str]) -> list[list[RunPart]]:
    """Returns the parts of each merged run: the runs of the newest group of each store, by what they run.

    The order of the inputs does not matter.

    Args:
        inputs: the stores, one or more.
        environ: has the values of variables, which are compared as far as they are set.

    Raises:
        UsageError: a store has no run, or one that cannot be merged; or the runs differ.
        StoreError: a store cannot be read.
    """
    by_input = [_newest_parts(item) for item in inputs]
    for part in (part for parts in by_input for part in parts):
        _check_mergeable(part)
    by_key: dict[_RunKey, list[RunPart]] = defaultdict(list)
    if all(len({_run_key(part.run) for part in parts}) == 1 for parts in by_input):
        parts_by_run = [[part for parts in by_input for part in parts]]
    else:
        _check_keys(inputs, by_input)
        for part in (part for parts in by_input for part in parts):
            by_key[_run_key(part.run)].append(part)
        parts_by_run = list(by_key.values())
    lines = [line for parts in parts_by_run for line in _find_differences(parts, environ)]
    if lines:
        raise UsageError(
            "\n".join(
                (
                    "These runs cannot be merged, because they differ:",
                    *(f"  {line}" for line in lines),
                    (
                        "The newest run of each store is merged. Run all shards with the same suite "
                        "and the same flags except --shard, and merge again."
                    ),
                )
            )
        )
    return [sorted(parts, key=_sort_key) for parts in parts_by_run]


def _newest_parts(item: MergeInput) -> list[RunPart]:
    """Returns the runs of the newest group of a store, and of several of the same shard the newest one.

    The remains of a stopped merge do not count: resuming them would pay again for the missing trials.
    """
    runs = (run for run in item.store.runs() if not is_unfinished_merge(run))
    newest = next(runs, None)
    if newest is None:
        raise UsageError(
            f"{item.name} has no run, or only part of a merge that was stopped. Remove it, or run its "
            "shard first."
        )
    parts: dict[tuple[_RunKey, Shard | None], RunPart] = {}
    for run in (newest, *(run for run in runs if run.group == newest.group)):
        parts.setdefault((_run_key(run), run.settings.selection.shard), RunPart(item, run))
    return list(reversed(parts.values()))


def _run_key(run: Run) -> _RunKey:
    return run.suite.name, run.target.name, run.prompt_name


def _sort_key(part: RunPart) -> tuple[int, str, str]:
    return -1 if part.shard is None else part.shard.index, part.run.id, part.input.name


def _check_mergeable(part: RunPart) -> None:
    run = part.run
    if run.imported is not None:
        raise UsageError(f"{part.name} was imported from a bundle, and imported runs cannot be merged.")
    if run.regrade_of is not None:
        raise UsageError(
            f"{part.name} is a regrade of run {run.regrade_of}. Merge the original runs, and use "
            "`proctor regrade` on the merged run."
        )
    if run.early_stop is not None:
        raise UsageError(
            f"{part.name} stopped early, so it lacks cases. Run it without --until and --stop-when-shown."
        )
    if run.status == "running" and part.input.store.is_run_locked(run.id):
        raise UsageError(f"{part.name} is still running. Wait until it ends, and merge again.")
    if run.status != "finished" and any(
        batch.batch_id is not None for batch in part.input.store.batches(run.id)
    ):
        raise UsageError(
            f"{part.name} has requests in batches. The merged run would send them again, and you would "
            f"pay twice. Finish it first: proctor run --resume={run.id} --store "
            f"{shlex.quote(part.input.name)}"
        )


def _check_keys(inputs: Sequence[MergeInput], by_input: Sequence[Sequence[RunPart]]) -> None:
    """Checks that one of the stores has all runs, so that others lack only what was not started."""
    keys = [{_run_key(part.run) for part in parts} for parts in by_input]
    every_key = set[_RunKey]().union(*keys)
    if every_key in keys:
        return
    lines = []
    for key in sorted(every_key, key=str):
        having = [item.name for item, own in zip(inputs, keys, strict=True) if key in own]
        suite, target, prompt = key
        title = f"{suite} on {target}" + ("" if prompt is None else f" · {prompt}")
        lines.append(f"  {title}: only in {join_names(having, _MAX_NAMES)}")
    raise UsageError(
        "\n".join(
            (
                "The newest runs of these stores are not of the same suites, targets and prompts:",
                *lines,
                "Run all shards with the same command except for --shard, and merge again.",
            )
        )
    )


# --- differences -------------------------------------------------------------------------------------------


def _find_differences(parts: Sequence[RunPart], environ: Mapping[str, str]) -> Iterator[str]:
    """Yields a line with the values and their stores for each thing in which runs differ."""
    facts = [(part.input.name, _list_facts(part.run)) for part in parts]
    has_difference = False
    for label in dict.fromkeys(label for _, own in facts for label in own):
        if has_difference and label in _DETAILS:
            continue
        values = [(name, own[label]) for name, own in facts if label in own]
        if len({value for _, value in values}) > 1:
            has_difference = True
            yield f"{label}: {_join_values(values)}"
    yield from _find_changed_variables(parts, environ)


def _join_values(values: Iterable[tuple[str, str]]) -> str:
    """Joins values with the names of their stores: `8 in a.db, b.db; 16 in c.db`."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    for name, value in values:
        names[value][name] = None
    return "; ".join(f"{value} in {join_names(list(own), _MAX_NAMES)}" for value, own in names.items())


_CASES, _ORDER, _SEAT, _SELECTION = (
    "the cases of the suite",
    "the tags, metadata or order of the suite",
    "the other targets and prompts of the command",
    "the selected cases",
)
_DETAILS = frozenset({_ORDER, _SEAT, _SELECTION})
"""What follows from other differences, and is only listed if there are none."""


def _list_facts(run: Run) -> dict[str, str]:
    """Returns what must be the same in all parts, as texts by what they say."""
    suite, selection = run.suite, replace(run.settings.selection, shard=None)
    facts = {
        "the suite": suite.name,
        _CASES: suite.digest[:_DIGEST_LENGTH],
        **flag_texts(run),
        "the configuration of the target": _describe_targets([run.target]),
        "the judges": _describe_targets(run.judges),
        "the targets that cases name": _describe_targets(run.named_targets),
        "the judges that graders name": _describe_targets(run.named_judges),
        "the embedding model": run.embedder or "none",
        "the text of the prompt": "none" if run.prompt is None else template_digest(run.prompt),
        _ORDER: suite.content[:_DIGEST_LENGTH],
        _SEAT: settings_digest(run.seat)[:_DIGEST_LENGTH],
        _SELECTION: settings_digest((selection, run.settings.repeats))[:_DIGEST_LENGTH],
    }
    if run.settings.selection.shard is not None:
        facts["the number of shards"] = f"{run.settings.selection.shard.count:,}"
    return facts


def _describe_targets(specs: Iterable[TargetSpec]) -> str:
    return ", ".join(f"{spec.name} ({target_digest(spec)[:_DIGEST_LENGTH]})" for spec in specs) or "none"


def _find_changed_variables(parts: Sequence[RunPart], environ: Mapping[str, str]) -> Iterator[str]:
    """Yields the variables that are known to have had several values: the current one, and another one."""
    names: dict[str, dict[bool, list[str]]] = defaultdict(lambda: {True: [], False: []})
    for part in parts:
        compared = VariableValues(part.input.store, environ).compare(part.run.id)
        for name, is_same in compared.items():
            names[name][is_same].append(part.input.name)
    for name, by_value in sorted(names.items()):
        if by_value[True] and by_value[False]:
            same, other = (join_names(by_value[key], _MAX_NAMES) for key in (True, False))
            yield f"the variable {name}: the current value in {same}; another value in {other}"

"""Selects the targets and judges that a run needs: its own, and those that cases and graders name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from proctor.abilities import list_abilities
from proctor.lint.related_cases import RelatedCasesRule
from proctor.lint.suppressions import silenced_codes
from proctor.model import Case, Params, ResponseFormat, Run, TargetSpec
from proctor.protocols import Grader

TargetResolver = Callable[[str, Params], TargetSpec]
"""Returns the target of a name."""

SourceLocation = tuple[str, int]
"""A file, and a line in it."""


class RequiredTargets(Struct, frozen=True, kw_only=True):
    """Which targets, judges and variables the cases of a suite require."""

    needs: frozenset[str] = frozenset()
    """`judge`, `embedder` or both, where a grader calls one."""
    unjudged: frozenset[str | None] = frozenset()
    """The targets of cases whose grader calls a judge and does not name it; None is the run's target."""
    judges: frozenset[str] = frozenset()
    """The judges that graders name."""
    targets: frozenset[str] = frozenset()
    """The targets that cases name."""
    choice_cases: dict[tuple[str | None, tuple[str, ...]], str] = {}
    """The first case with choices for each `target` and `only_targets` of a case."""
    variables: frozenset[str] = frozenset()
    """The environment variables that cases name."""
    params: dict[str, str] = {}
    """The parameters that cases set themselves, each with the id of the first such case."""
    abilities: dict[str, str] = {}
    """The abilities of a model that cases need, as `abilities` names them, each with the id of the first."""
    suppressed_rules: frozenset[str] = frozenset()
    """The codes of the lint rules that cases switch off."""
    related_cases: str | None = None
    """What the rule `related-cases` says of the cases; None if they do not look related, or
    the suite is only validated."""
    locations: dict[str, SourceLocation] = {}
    """Where each target and judge is first named, where known."""


class RequirementCollector:
    """Collects what cases require while they are read."""

    def __init__(self, *, find_related: bool = True) -> None:
        """Begins a collection; `find_related` says whether to look for related cases."""
        self._needs: set[str] = set()
        self._unjudged: set[str | None] = set()
        self._judges: set[str] = set()
        self._targets: set[str] = set()
        self._choice_cases: dict[tuple[str | None, tuple[str, ...]], str] = {}
        self._variables: set[str] = set()
        self._params: dict[str, str] = {}
        self._abilities: dict[str, str] = {}
        self._suppressed_rules: set[str] = set()
        self._related_cases = RelatedCasesRule() if find_related else None
        self._locations: dict[str, SourceLocation] = {}

    def add(self, case: Case, graders: Iterable[Grader], location: SourceLocation | None = None) -> None:
        """Adds the next case, with the graders of its assertions and its location in the file."""
        if case.target is not None:
            self._targets.add(case.target)
            self._note_location(case.target, location)
        if case.form is not None:
            self._add_form(case, case.form)
        if case.variables:
            self._variables.update(case.variables)
        for ability in list_abilities(case):
            self._abilities.setdefault(ability, case.id)
        if "lint" in case.metadata:
            self._suppressed_rules |= silenced_codes(case)
        if self._related_cases is not None:
            self._related_cases.add(case)
        for grader in graders:
            needs = grader.requirements()
            if needs:
                self._needs |= needs
                for name in grader.judges():
                    if name is None:
                        self._unjudged.add(case.target)
                    else:
                        self._judges.add(name)
                        self._note_location(name, location)

    def _add_form(self, case: Case, form: ResponseFormat) -> None:
        if form.choices:
            self._choice_cases.setdefault((case.target, case.only_targets), case.id)
        if form.params:
            self._params = {**dict.fromkeys(form.params, case.id), **self._params}

    def _note_location(self, name: str, location: SourceLocation | None) -> None:
        if location is not None:
            self._locations.setdefault(name, location)

    @property
    def required(self) -> RequiredTargets:
        """Returns everything that the added cases require."""
        finding = None if self._related_cases is None else self._related_cases.finish()
        return RequiredTargets(
            needs=frozenset(self._needs),
            unjudged=frozenset(self._unjudged),
            judges=frozenset(self._judges),
            targets=frozenset(self._targets),
            choice_cases=self._choice_cases,
            variables=frozenset(self._variables),
            params=self._params,
            abilities=self._abilities,
            suppressed_rules=frozenset(self._suppressed_rules),
            related_cases=None if finding is None else finding.message,
            locations=self._locations,
        )


class JudgeSelection(Struct, frozen=True, kw_only=True):
    """The judges and named targets of one run; the fields are those of `Run`."""

    judges: tuple[TargetSpec, ...] = ()
    judges_given: bool = False
    named_targets: tuple[TargetSpec, ...] = ()
    named_judges: tuple[TargetSpec, ...] = ()
    warnings: tuple[str, ...] = ()


def select_judges(
    required: RequiredTargets,
    target: TargetSpec,
    given_judges: tuple[TargetSpec, ...],
    *,
    path: str,
    params: Params,
    resolve: TargetResolver,
) -> JudgeSelection:
    """Selects judges: the user's, else the grader's, else the target's, else the target itself.

    Args:
        required: what the cases require.
        target: the run's target.
        given_judges: the judges that the user names.
        path: the suite, for warnings.
        params: the parameters of targets; judges have the default ones.
        resolve: returns the target of a name.

    Raises:
        UsageError: a name is not a target.
    """
    named_targets = tuple([resolve(name, params) for name in sorted(required.targets)])
    if "judge" not in required.needs:
        unused = f"{path}: warning: No case needs a judge, so --judge has no effect."
        return JudgeSelection(named_targets=named_targets, warnings=(unused,) if given_judges else ())
    if given_judges:
        return JudgeSelection(judges=given_judges, judges_given=True, named_targets=named_targets)
    answering = {spec.name: spec for spec in named_targets if spec.name in required.unjudged}
    if None in required.unjudged:
        answering = {target.name: target} | answering
    warnings = [
        f"{path}: warning: Without --judge, {name} judges its own answers. Models favour their own "
        "answers: name another judge."
        for name, spec in answering.items()
        if default_judge(spec)[1]
    ]
    return JudgeSelection(
        judges=(default_judge(target)[0],),
        named_targets=named_targets,
        named_judges=tuple([resolve(name, Params()) for name in sorted(required.judges)]),
        warnings=tuple(warnings),
    )


def all_judges(run: Run) -> tuple[TargetSpec, ...]:
    """Returns all judges of a run: its own, and those of graders and named targets."""
    own = () if run.judges_given or not run.judges else [default_judge(spec)[0] for spec in run.named_targets]
    return (*run.judges, *run.named_judges, *own)


def all_specs(run: Run) -> tuple[TargetSpec, ...]:
    """Returns all targets and judges of a run; a regrade has only judges."""
    judges = all_judges(run)
    return judges if run.regrade_of is not None else (run.target, *run.named_targets, *judges)


def judges_for_target(run: Run, target: str | None) -> tuple[TargetSpec, ...]:
    """Returns the judges for answers of the run's target, or of the target that a case names."""
    for spec in run.named_targets if run.judges and not run.judges_given else ():
        if spec.name == target:
            return (default_judge(spec)[0],)
    return run.judges


def default_judge(target: TargetSpec) -> tuple[TargetSpec, bool]:
    """Returns the judge of a target's answers where none is named, and whether it is the target itself."""
    if target.judge is not None:
        return target.judge, False
    return replace(target, params=Params()), True

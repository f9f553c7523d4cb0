"""Who is asked in a run: its target, those that cases and graders name, and the judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from proctor.lint.suppressions import silenced
from proctor.model import Case, Params, Run, TargetSpec
from proctor.protocols import Grader

Naming = Callable[[str, Params], TargetSpec]
"""The target of a word that somebody wrote."""

Place = tuple[str, int]
"""A file and a line of it."""


class Wanted(Struct, frozen=True, kw_only=True):
    """Whom the cases of a suite want to be asked."""

    needs: frozenset[str] = frozenset()
    """`judge`, `embedder` or both, where a grader asks one."""
    unjudged: frozenset[str | None] = frozenset()
    """The targets of cases whose grader asks a judge and does not say which; None is the run's target."""
    judges: frozenset[str] = frozenset()
    """The judges that graders name."""
    targets: frozenset[str] = frozenset()
    """The targets that cases name."""
    variables: frozenset[str] = frozenset()
    """The environment variables that cases name."""
    silenced: frozenset[str] = frozenset()
    """The codes of rules that cases silence with `lint`."""
    places: dict[str, Place] = {}
    """Where each target and judge is named first, where that is known."""


class Wishes:
    """Collects what cases want while they stream by."""

    def __init__(self) -> None:
        """Nobody is wanted yet."""
        self._needs: set[str] = set()
        self._unjudged: set[str | None] = set()
        self._judges: set[str] = set()
        self._targets: set[str] = set()
        self._variables: set[str] = set()
        self._silenced: set[str] = set()
        self._places: dict[str, Place] = {}

    def add(self, case: Case, graders: Iterable[Grader], place: Place | None = None) -> None:
        """The next case, with the graders of its assertions, and where it stands."""
        if case.target is not None:
            self._targets.add(case.target)
            self._note(case.target, place)
        if case.variables:
            self._variables.update(case.variables)
        if "lint" in case.metadata:
            self._silenced |= silenced(case)
        for grader in graders:
            needs = grader.wants()
            if needs:
                self._needs |= needs
                for name in grader.judges():
                    if name is None:
                        self._unjudged.add(case.target)
                    else:
                        self._judges.add(name)
                        self._note(name, place)

    def _note(self, name: str, place: Place | None) -> None:
        if place is not None:
            self._places.setdefault(name, place)

    @property
    def wanted(self) -> Wanted:
        """All that was added."""
        return Wanted(
            needs=frozenset(self._needs),
            unjudged=frozenset(self._unjudged),
            judges=frozenset(self._judges),
            targets=frozenset(self._targets),
            variables=frozenset(self._variables),
            silenced=frozenset(self._silenced),
            places=self._places,
        )


class Casting(Struct, frozen=True, kw_only=True):
    """Who is asked in one run; the fields are those of `Run`."""

    judges: tuple[TargetSpec, ...] = ()
    judges_given: bool = False
    named_targets: tuple[TargetSpec, ...] = ()
    named_judges: tuple[TargetSpec, ...] = ()
    warnings: tuple[str, ...] = ()


def casting_of(
    wanted: Wanted,
    target: TargetSpec,
    given: tuple[TargetSpec, ...],
    *,
    path: str,
    params: Params,
    spec_of: Naming,
) -> Casting:
    """Who is asked: a judge is the user's, else the grader's, else the target's, else the target itself.

    Args:
        wanted: whom the cases want.
        target: the run's target.
        given: the judges that the user names.
        path: the suite, for warnings.
        params: what targets are asked with; judges are asked with the usual ones.
        spec_of: the target of a name.

    Raises:
        UsageError: there is no target of a name.
    """
    named_targets = tuple([spec_of(name, params) for name in sorted(wanted.targets)])
    if "judge" not in wanted.needs:
        unused = f"{path}: warning: no case asks a judge, so --judge has no effect."
        return Casting(named_targets=named_targets, warnings=(unused,) if given else ())
    if given:
        return Casting(judges=given, judges_given=True, named_targets=named_targets)
    answering = {spec.name: spec for spec in named_targets if spec.name in wanted.unjudged}
    if None in wanted.unjudged:
        answering = {target.name: target} | answering
    warnings = [
        f"{path}: warning: no --judge was given, so {name} judges its own answers. "
        "A model is kind to itself: name another one."
        for name, spec in answering.items()
        if judge_of(spec)[1]
    ]
    return Casting(
        judges=(judge_of(target)[0],),
        named_targets=named_targets,
        named_judges=tuple([spec_of(name, Params()) for name in sorted(wanted.judges)]),
        warnings=tuple(warnings),
    )


def judges_of(run: Run) -> tuple[TargetSpec, ...]:
    """Everybody who may judge in a run: its own judges, and those that graders and named targets have."""
    own = () if run.judges_given or not run.judges else [judge_of(spec)[0] for spec in run.named_targets]
    return (*run.judges, *run.named_judges, *own)


def judges_for(run: Run, target: str | None) -> tuple[TargetSpec, ...]:
    """Those of a run who judge what its target answers, or the target of that name that a case has."""
    for spec in run.named_targets if run.judges and not run.judges_given else ():
        if spec.name == target:
            return (judge_of(spec)[0],)
    return run.judges


def judge_of(target: TargetSpec) -> tuple[TargetSpec, bool]:
    """Who judges a target's answers where nobody says, and whether that is the target itself."""
    if target.judge is not None:
        return target.judge, False
    return replace(target, params=Params()), True

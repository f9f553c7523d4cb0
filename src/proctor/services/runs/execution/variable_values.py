"""Compares values of `${{ VARIABLES }}` with those of stored runs: an answer counts for one value only.

A store has a digest of each value, keyed with a secret of the run. Neither is in any bundle or export, so
a short value cannot be guessed without the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from proctor.env_substitution import names_in
from proctor.model import Case, Params, TargetSpec
from proctor.parameters import SECRET_HEADER
from proctor.protocols import Store

_EXCLUDED_OPTIONS = frozenset({"base_url", "env", "healthcheck"})
"""Options on which no answer depends, or that are handled separately; the address is filled in."""


def sent_variables(case: Case) -> tuple[str, ...]:
    """Returns the variables whose values are sent to a target for the case."""
    return names_in((case.input, case.form, case.workspace)) if case.variables else ()


def parameter_variables(params: Params) -> tuple[str, ...]:
    """Returns the variables on which answers depend by headers and further fields, without secrets."""
    if not names_in((params.headers, params.extra_body)):
        return ()
    from proctor.targets.entries import SECRET_NAME

    headers = [value for name, value in params.headers.items() if not SECRET_HEADER.search(name)]
    return tuple(name for name in names_in((headers, params.extra_body)) if not SECRET_NAME.search(name))


def target_variables(specs: Iterable[TargetSpec]) -> frozenset[str]:
    """Returns the variables on which answers of targets depend: all that they name, without secrets."""
    return frozenset(name for spec in specs for name in _variable_names(spec))


def _variable_names(spec: TargetSpec) -> Iterator[str]:
    if names_in((spec.model, spec.options)):
        from proctor.targets.entries import SECRET_NAME

        options = {**spec.options, **spec.options.get("env", {})}
        visible_options = {
            name: value
            for name, value in options.items()
            if name not in _EXCLUDED_OPTIONS and not SECRET_NAME.search(name)
        }
        yield from (name for name in names_in((spec.model, visible_options)) if not SECRET_NAME.search(name))
    yield from parameter_variables(spec.params)
    for other in spec.fallbacks:
        yield from _variable_names(other)


class VariableValues:
    """Compares the current values of variables with their values in stored runs."""

    def __init__(self, store: Store, environ: Mapping[str, str]) -> None:
        """Stores its arguments; reads nothing.

        Args:
            store: has the runs.
            environ: has the current values.
        """
        self._store = store
        self._environ = environ
        self._same: dict[str, dict[str, bool]] = {}

    def record(self, run_id: str, names: Iterable[str]) -> None:
        """Stores digests of the values of these variables for a run that starts."""
        digests = {name: self._digest(run_id, name) for name in names if name in self._environ}
        if digests:
            self._store.save_variable_digests(run_id, digests)

    def compare(self, run_id: str) -> dict[str, bool]:
        """Returns for each variable that a run recorded and that is set now whether it has the same value."""
        same = self._same.get(run_id)
        if same is None:
            then = self._store.variable_digests(run_id)
            same = self._same[run_id] = {
                name: digest == self._digest(run_id, name)
                for name, digest in then.items()
                if name in self._environ
            }
        return same

    def are_same(self, run_id: str, names: Iterable[str]) -> bool:
        """Returns whether all of these variables are known to have the same values as in a run."""
        names = tuple(names)
        return not names or all(self.compare(run_id).get(name, False) for name in names)

    def find_changed(self, run_id: str, names: Iterable[str]) -> list[str]:
        """Returns the variables that are known to have had another value in a run, sorted."""
        names = tuple(names)
        return sorted(name for name in names if not self.compare(run_id).get(name, True)) if names else []

    def _digest(self, run_id: str, name: str) -> bytes:
        import hmac  # most suites name no variable

        value = f"{name}\0{self._environ[name]}".encode("utf-8", "surrogateescape")
        return hmac.digest(self._store.secret(run_id), b"proctor/variable/1\n" + value, "sha256")

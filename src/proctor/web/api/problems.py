"""Turns errors into problem responses (RFC 9457, `application/problem+json`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from starlette.responses import Response

from proctor.certification import NotCertified
from proctor.errors import (
    BundleError,
    NothingSelected,
    ProctorError,
    ReadOnlyStore,
    StoreError,
    SuiteError,
    suggestion,
)
from proctor.model import Problem
from proctor.reports.runs.json import IssueRecord, issue_records
from proctor.web.api.records import ProblemDetails
from proctor.web.api.responses import encode_json
from proctor.web.security import RequestRefused
from proctor.web.templates_env import PageNotFound

PROBLEM_MEDIA_TYPE = "application/problem+json"
PROBLEM_PREFIX = "/api/v1/problems/"
"""The path under which each problem type is described; a type is its path."""


class ProblemKind(NamedTuple):
    """A problem type."""

    status: int
    title: str
    about: str


PROBLEM_KINDS = {
    "bad-request": ProblemKind(
        400, "The request is invalid", "The detail says why, and what to send instead."
    ),
    "no-token": ProblemKind(
        401,
        "The server's token is missing or wrong",
        "Send `Authorization: Bearer TOKEN`, with the token that you gave `proctor serve` or that it "
        "printed.",
    ),
    "other-site": ProblemKind(
        403, "Another site sent this request", "The server answers only its own pages and programs."
    ),
    "read-only-store": ProblemKind(
        403, "The store is read-only", "Nothing was changed. The detail says who can allow it."
    ),
    "not-found": ProblemKind(404, "Not found", "The detail says what does not exist."),
    "no-such-method": ProblemKind(
        405, "Method not allowed", "The header `Allow` lists the methods that this address accepts."
    ),
    "conflict": ProblemKind(
        409, "Conflict with the current state", "An example is stopping a run that is not in progress."
    ),
    "too-large": ProblemKind(413, "The body is too large", "Use the command line instead."),
    "other-content-type": ProblemKind(
        415, "The body has the wrong content type", "The header `Accept` has the right content type."
    ),
    "other-host": ProblemKind(421, "Wrong host", "Use the address that `proctor serve` printed."),
    "wrong-values": ProblemKind(
        422, "A value is missing or invalid", "Each of `errors` names a field and the values that it accepts."
    ),
    "wrong-suite": ProblemKind(
        422, "The suite cannot be used", "Each of `errors` names its file, line, field and case."
    ),
    "broken": ProblemKind(
        500, "Internal error", "This is a bug in Proctor. Nothing that was stored is lost."
    ),
    "no-store": ProblemKind(
        503, "The store cannot be used", "Nothing was changed. The detail says what to do."
    ),
}
"""Problem types by name; if several share a status, the first is its default."""
_DEFAULT_KINDS = {kind.status: name for name, kind in reversed(PROBLEM_KINDS.items())}


class Conflict(ProctorError):
    """The request cannot be fulfilled in the current state."""


def problem_response(
    status: int,
    detail: str,
    problems: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
    *,
    instance: str = "",
) -> Response:
    """Returns a problem as a response.

    Args:
        status: its status, which says what kind of problem it is.
        detail: a full sentence.
        problems: what is wrong with a suite; warnings are left out.
        headers: further headers.
        instance: the requested path, if it is known.
    """
    errors = issue_records(problems)
    name = "wrong-suite" if status == 422 and errors else _DEFAULT_KINDS.get(status, "bad-request")
    return _response(name, status, detail, errors, instance, headers)


def problem_from_error(error: ProctorError, instance: str) -> Response:
    """Turns an error that Proctor raised on purpose into a problem response."""
    if isinstance(error, SuiteError):
        errors = [problem for problem in error.problems if problem.level == "error"]
        detail = errors[0].message if len(errors) == 1 else f"The suite has {len(errors):,} errors."
        return problem_response(422, detail, errors, instance=instance)
    if isinstance(error, ReadOnlyStore):
        return _response("read-only-store", 403, str(error), (), instance, None)
    status, headers = _error_status(error), error.headers if isinstance(error, RequestRefused) else None
    return problem_response(status, str(error), headers=headers, instance=instance)


def _error_status(error: ProctorError) -> int:
    if isinstance(error, RequestRefused):
        return error.status
    statuses: tuple[tuple[type[ProctorError], int], ...] = (
        (PageNotFound, 404),
        (Conflict, 409),
        (NotCertified, 409),
        (StoreError, 503),
        (BundleError, 422),
        (NothingSelected, 422),
    )
    return next((status for kind, status in statuses if isinstance(error, kind)), 400)


def invalid_values_response(
    error: RequestValidationError, instance: str, known_names: Sequence[str]
) -> Response:
    """Reports values that are missing or invalid.

    Args:
        error: what was found.
        instance: the requested path.
        known_names: the names of the fields of the body, for a suggestion.
    """
    validation_errors = error.errors()
    if any(validation_error["type"] == "json_invalid" for validation_error in validation_errors):
        offset = validation_errors[0]["loc"][-1]
        return problem_response(400, f"The body is not valid JSON: see byte {offset}.", instance=instance)
    errors = [_issue_from_validation(validation_error, known_names) for validation_error in validation_errors]
    detail = " ".join(issue.message for issue in errors[:3])
    return _response("wrong-values", 422, detail, errors, instance, None)


def unknown_fields_response(names: Iterable[str], known_names: Sequence[str], instance: str) -> Response:
    """Reports unknown parameters of an address."""
    errors = [_make_issue(name, "unknown-field", _unknown_field_message(name, known_names)) for name in names]
    return _response("wrong-values", 422, errors[0].message, errors, instance, None)


def wrong_fields_response(messages: Mapping[str, str], instance: str) -> Response:
    """Reports invalid fields of a body, each with a sentence."""
    errors = [_make_issue(field, "wrong-value", sentence) for field, sentence in messages.items()]
    return _response("wrong-values", 422, " ".join(messages.values()), errors, instance, None)


def _issue_from_validation(validation_error: Mapping[str, Any], known_names: Sequence[str]) -> IssueRecord:
    field = ".".join(str(part) for part in validation_error["loc"][1:])
    subject = f"`{field}`" if field else "The body"
    if validation_error["type"] == "extra_forbidden":
        return _make_issue(field, "unknown-field", _unknown_field_message(field, known_names))
    if validation_error["type"] == "missing":
        message = f"{subject} is missing." if field else "The body is missing. Send a JSON object."
        return _make_issue(field, "missing", message)
    return _make_issue(field, "wrong-value", f"{subject}: {validation_error['msg']}.")


def _unknown_field_message(name: str, known_names: Sequence[str]) -> str:
    return f"There is no field `{name}`. {suggestion(name, known_names)}"


def _make_issue(field: str, code: str, message: str) -> IssueRecord:
    return IssueRecord(field=field or None, code=code, message=message)


def _response(
    name: str,
    status: int,
    detail: str,
    errors: Sequence[IssueRecord],
    instance: str,
    headers: Mapping[str, str] | None,
) -> Response:
    details = ProblemDetails(
        type=f"{PROBLEM_PREFIX}{name}",
        title=PROBLEM_KINDS[name].title,
        status=status,
        detail=detail,
        instance=instance,
        errors=tuple(errors),
    )
    return Response(encode_json(details), status, dict(headers or {}), PROBLEM_MEDIA_TYPE)

"""What went wrong to problems as RFC 9457 has them: `application/problem+json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.responses import Response

from proctor.certification import NotCertified
from proctor.errors import BundleError, NothingSelected, ProctorError, StoreError, SuiteError, suggestion
from proctor.model import Problem
from proctor.reports.runs.json import problem_row
from proctor.web.api.responses import encode_json
from proctor.web.security import RequestRefused
from proctor.web.templates_env import PageNotFound

MEDIA = "application/problem+json"
PREFIX = "/api/v1/problems/"
"""Where the types of problems are told of; each type is its path."""


class ProblemKind(NamedTuple):
    """A type of problems."""

    status: int
    title: str
    about: str


KINDS = {
    "bad-request": ProblemKind(
        400, "This cannot be done as it was asked", "The detail says why, and what to write instead."
    ),
    "no-token": ProblemKind(
        401,
        "The server's token is missing or wrong",
        "Send `Authorization: Bearer TOKEN`, with the token that `proctor serve` was given or has printed.",
    ),
    "other-site": ProblemKind(
        403, "Another site sent this", "Only this server's own pages, and programs, are answered."
    ),
    "not-found": ProblemKind(404, "There is no such thing here", "The detail says what is not there."),
    "no-such-method": ProblemKind(
        405, "This address does not take this method", "The header `Allow` has those that it takes."
    ),
    "conflict": ProblemKind(
        409, "It cannot be done in the present state", "Such as to stop a run that nobody makes."
    ),
    "too-large": ProblemKind(413, "The body is too large", "Use the command line for it."),
    "other-content-type": ProblemKind(
        415, "The body is of another type than is read here", "The header `Accept` has the one that is read."
    ),
    "other-host": ProblemKind(
        421, "This server is not the one that was asked for", "Use the address that `proctor serve` printed."
    ),
    "wrong-values": ProblemKind(
        422, "A value is missing or cannot be", "Each of `errors` has the field and what it may be."
    ),
    "wrong-suite": ProblemKind(
        422, "The suite cannot be used", "Each of `errors` has its file, line, field and case."
    ),
    "broken": ProblemKind(
        500, "Proctor broke", "This is a fault of Proctor. Nothing that was stored is lost."
    ),
    "no-store": ProblemKind(
        503, "The store cannot be used", "Nothing was changed. The detail says what to do."
    ),
}
"""Every type by its name; where several have one status, the first is the usual one."""
_USUAL = {kind.status: name for name, kind in reversed(KINDS.items())}


class Issue(BaseModel):
    """One thing that is wrong, with its place; what is not known is null."""

    path: str | None = Field(description="The file, as it was named.", examples=["my_suite.jsonl"])
    line: int | None = Field(description="The line in it.", examples=[3])
    field: str | None = Field(description="The path of the field.", examples=["expected"])
    case: str | None = Field(description="The id of the case.", examples=["t1"])
    code: str = Field(description="A short stable name.", examples=["unknown-field"])
    message: str = Field(description="A full sentence that says what to do.")


class ProblemDetails(BaseModel):
    """Why there is no other answer (RFC 9457)."""

    type: str = Field(description="Tells kinds of problems apart.", examples=[f"{PREFIX}not-found"])
    title: str = Field(description="What kind of problem this is.", examples=[KINDS["not-found"].title])
    status: int = Field(description="The status again.", examples=[404])
    detail: str = Field(description="A full sentence that says what to do.")
    instance: str = Field(default="", description="The path that was asked for.")
    errors: list[Issue] = Field(description="Each thing that is wrong with what was sent; often none.")


class Conflict(ProctorError):
    """What is asked cannot be done in the present state."""


def problem_response(
    status: int,
    detail: str,
    problems: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
    *,
    instance: str = "",
) -> Response:
    """A problem as a response.

    Args:
        status: its status, which says what kind of problem it is.
        detail: a full sentence.
        problems: what is wrong with a suite; warnings are left out.
        headers: further headers.
        instance: the path that was asked for, where it is known.
    """
    errors = [{"path": one.path, **problem_row(one)} for one in problems if one.level == "error"]
    name = "wrong-suite" if status == 422 and errors else _USUAL.get(status, "bad-request")
    return _response(name, status, detail, errors, instance, headers)


def problem_from_error(error: ProctorError, instance: str) -> Response:
    """What Proctor refuses on purpose."""
    if isinstance(error, SuiteError):
        wrong = [one for one in error.problems if one.level == "error"]
        detail = wrong[0].message if len(wrong) == 1 else f"The suite has {len(wrong):,} errors."
        return problem_response(422, detail, wrong, instance=instance)
    status, headers = _status_of(error), error.headers if isinstance(error, RequestRefused) else None
    return problem_response(status, str(error), headers=headers, instance=instance)


def _status_of(error: ProctorError) -> int:
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


def invalid(error: RequestValidationError, instance: str, known: Sequence[str]) -> Response:
    """Values that are missing or cannot be.

    Args:
        error: what was found.
        instance: the path that was asked for.
        known: the names of the fields of the body, for a suggestion.
    """
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        place = found[0]["loc"][-1]
        return problem_response(400, f"The body is no JSON: see its byte {place}.", instance=instance)
    errors = [_wrong(one, known) for one in found]
    detail = " ".join(one["message"] for one in errors[:3])
    return _response("wrong-values", 422, detail, errors, instance, None)


def unknown_fields(names: Iterable[str], known: Sequence[str], instance: str) -> Response:
    """Parameters of an address that has others."""
    errors = [_row(name, "unknown-field", _unknown(name, known)) for name in names]
    return _response("wrong-values", 422, errors[0]["message"], errors, instance, None)


def wrong_fields(wrong: Mapping[str, str], instance: str) -> Response:
    """Fields of a body that cannot be, each with a sentence."""
    errors = [_row(field, "wrong-value", sentence) for field, sentence in wrong.items()]
    return _response("wrong-values", 422, " ".join(wrong.values()), errors, instance, None)


def _wrong(found: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    field = ".".join(str(part) for part in found["loc"][1:])
    where = f"`{field}`" if field else "The body"
    if found["type"] == "extra_forbidden":
        return _row(field, "unknown-field", _unknown(field, known))
    if found["type"] == "missing":
        said = f"{where} is missing." if field else "The body is missing. Send a JSON object."
        return _row(field, "missing", said)
    return _row(field, "wrong-value", f"{where}: {found['msg']}.")


def _unknown(name: str, known: Sequence[str]) -> str:
    return f"There is no field `{name}`. {suggestion(name, known)}"


def _row(field: str, code: str, message: str) -> dict[str, Any]:
    return {
        "path": None,
        "line": None,
        "field": field or None,
        "case": None,
        "code": code,
        "message": message,
    }


def _response(
    name: str,
    status: int,
    detail: str,
    errors: list[dict[str, Any]],
    instance: str,
    headers: Mapping[str, str] | None,
) -> Response:
    row = {"type": f"{PREFIX}{name}", "title": KINDS[name].title, "status": status, "detail": detail}
    whole = row | ({"instance": instance} if instance else {}) | {"errors": errors}
    return Response(encode_json(whole), status, dict(headers or {}), MEDIA)

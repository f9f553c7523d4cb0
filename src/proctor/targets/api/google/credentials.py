"""Access tokens of Google Cloud, refreshed before they expire.

The package google-auth finds the credentials and knows their kinds: the key file of a service account, a
person's login with gcloud, an identity of another cloud, or the machine's own.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proctor.env_substitution import substitute
from proctor.errors import EndpointFault, TargetError, UsageError
from proctor.model import TargetSpec

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from yarl import URL

    from proctor.targets.context import TargetContext

_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
_MAX_MESSAGE: Final = 300
_TIMEOUT_S: Final = 10
"""The time limit of one request for a token."""


class AccessToken:
    """A token for requests; all requests wait while it is refreshed."""

    def __init__(self, credentials: Credentials, project: str | None) -> None:
        """Requests no token yet; `project` is that of the credentials, if it is known."""
        from google.auth.transport.requests import Request

        self.project = project
        self._credentials = credentials
        self._request = partial(Request(), timeout=_TIMEOUT_S)
        self._lock = asyncio.Lock()

    async def sign(self, _url: URL, _body: bytes) -> dict[str, str]:
        """Returns the headers of a request: the token, and the project that pays if the credentials have one.

        A new token is requested if there is none that is valid for the next minutes.

        Raises:
            TargetError: there is none; its fields say whether to retry.
        """
        if not self._credentials.valid:
            async with self._lock:
                if not self._credentials.valid:
                    await asyncio.to_thread(self._refresh)
        headers: dict[str, str] = {}
        self._credentials.apply(headers)
        return headers

    def _refresh(self) -> None:
        from google.auth.exceptions import GoogleAuthError, TransportError

        try:
            self._credentials.refresh(self._request)
        except TransportError as error:
            raise TargetError(
                f"Cannot connect to Google Cloud to get an access token: {_first_sentence(error)}.",
                kind="connection",
                transient=True,
                fault=EndpointFault.SERVER,
                remedy="Check the network.",
            ) from error
        except GoogleAuthError as error:
            raise TargetError(
                f"Google Cloud returned no access token: {_first_sentence(error)}.",
                transient=error.retryable,
                fault=EndpointFault.SERVER if error.retryable else EndpointFault.PERMANENT,
                remedy="Check the credentials, or log in again with `gcloud auth application-default login`.",
            ) from error


async def find_token(spec: TargetSpec, context: TargetContext) -> AccessToken:
    """Returns the token of a target: by the key file in its options, else by what google-auth finds.

    Raises:
        UsageError: google-auth is not installed, or there are no credentials.
    """
    try:
        import google.auth.transport.requests  # noqa: F401  # it needs a package of its own
    except ImportError as error:
        raise UsageError(
            f"Target {spec.name!r} needs the package google-auth, which is missing. Install it with "
            "pip install 'proctor[vertex]', or set VERTEX_ACCESS_TOKEN."
        ) from error
    file = spec.options.get("credentials")
    if file is None:
        credentials, project = await asyncio.to_thread(_find_default, spec)
    else:
        folder = spec.options.get("folder", "")
        credentials, project = _read_key_file(spec, Path(folder, substitute(file, context.environ)))
    return AccessToken(credentials, project)


def _find_default(spec: TargetSpec) -> tuple[Credentials, str | None]:
    """Finds application default credentials, which may call the metadata server of the machine."""
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        credentials, project = google.auth.default(scopes=_SCOPES)
    except GoogleAuthError as error:
        raise UsageError(
            f"No Google Cloud credentials found for target {spec.name!r}: {_first_sentence(error)}. Run "
            f"`gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS to the key file of "
            f"a "
            "service account, or set VERTEX_ACCESS_TOKEN or VERTEX_API_KEY."
        ) from error
    return credentials, project


def _read_key_file(spec: TargetSpec, path: Path) -> tuple[Credentials, str | None]:
    from google.oauth2.service_account import Credentials

    try:
        credentials = Credentials.from_service_account_file(str(path), scopes=_SCOPES)
    except (OSError, ValueError) as error:  # google-auth raises ValueError for a file of another form
        reason = error.strerror if isinstance(error, OSError) else "it has a different structure"
        raise UsageError(
            f"Target {spec.name!r}: `credentials` must be the key file of a service account, and "
            f"{str(path)!r} cannot be read as one: {reason}."
        ) from error
    return credentials, credentials.project_id


def _first_sentence(error: Exception) -> str:
    """Returns the beginning of a message of google-auth, without the data and the advice after it."""
    message = " ".join(str(error.args[0] if error.args else error).split())
    return message.split(". ")[0][:_MAX_MESSAGE].rstrip(".")

"""Credentials and signatures of Amazon Web Services, through botocore, which is imported when it is needed.

Source of the signatures: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from proctor.errors import EndpointFault, TargetError, UsageError

if TYPE_CHECKING:
    from yarl import URL

_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z0-9]+)+")
_ARN_REGION: Final = re.compile(r"arn:aws[a-z-]*:[a-z0-9-]+:([a-z0-9-]+):")
_REGION_VARIABLES: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_FILE_VARIABLES: Final = {"config_file": "AWS_CONFIG_FILE", "credentials_file": "AWS_SHARED_CREDENTIALS_FILE"}


class AwsSigner:
    """Signs requests to one service in one region (Signature Version 4)."""

    def __init__(self, credentials: Any, service: str, region: str) -> None:
        """Takes botocore's credentials, which renew themselves if they are temporary."""
        self._credentials = credentials
        self._service = service
        self._region = region

    async def sign(self, url: URL, body: bytes) -> dict[str, str]:
        """Returns the headers of a POST request with a JSON body, signed now.

        Raises:
            TargetError: temporary credentials could not be renewed.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest("POST", str(url), headers={"Content-Type": "application/json"}, data=body)
        SigV4Auth(await self._get_current_credentials(), self._service, self._region).add_auth(request)
        return dict(request.headers.items())

    async def _get_current_credentials(self) -> Any:
        from botocore.credentials import RefreshableCredentials
        from botocore.exceptions import BotoCoreError

        try:
            if isinstance(self._credentials, RefreshableCredentials):  # this may ask a server
                return await asyncio.to_thread(self._credentials.get_frozen_credentials)
            return self._credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise TargetError(
                f"The AWS credentials could not be renewed: {error}.",
                fault=EndpointFault.PERMANENT,
                remedy="Log in again, for example with `aws sso login`.",
            ) from error


class AwsAccount:
    """Finds credentials and a region: in the environment, else in a profile, else in the machine's role."""

    def __init__(self, environ: Mapping[str, str], profile: str | None, subject: str) -> None:
        """Reads nothing.

        Args:
            environ: the environment variables.
            profile: the profile of AWS's files; None for that of the environment.
            subject: who needs the account, as the beginning of a sentence.
        """
        self._environ = environ
        self._profile = profile
        self._subject = subject

    def get_region(self, model: str) -> str:
        """Returns the region of a model's ARN, else that of the environment or the profile.

        Raises:
            UsageError: there is none, or it is not the name of a region.
        """
        arn = _ARN_REGION.match(model)
        values = (arn and arn[1], *(self._environ.get(name, "").strip() for name in _REGION_VARIABLES))
        region = next((value for value in values if value), None) or self._read_profile_region()
        if not region:
            raise UsageError(f"{self._subject} needs a region. Set AWS_REGION, such as us-east-1.")
        return self.check_region(region)

    def check_region(self, region: str) -> str:
        """Returns the name of a region, which becomes a part of a host name.

        Raises:
            UsageError: it is not the name of a region.
        """
        if not _REGION.fullmatch(region):
            raise UsageError(
                f"{self._subject}: {region[:60]!r} is not an AWS region. Write a region such as us-east-1."
            )
        return region

    async def open_signer(self, service: str, region: str, key_variable: str) -> AwsSigner:
        """Returns what signs requests.

        Args:
            service: the name of the service in signatures.
            region: its region.
            key_variable: the environment variable with a key that makes signatures needless, for errors.

        Raises:
            UsageError: botocore is not installed, or there are no credentials.
        """
        try:
            import botocore.session  # noqa: F401
        except ImportError:
            raise UsageError(
                f"{self._subject} needs the package botocore to sign requests. Install it: "
                f"pip install 'proctor[bedrock]', or set a key in {key_variable}."
            ) from None
        # Roles of machines and single sign-on ask a server.
        credentials = await asyncio.to_thread(self._find_credentials)
        if credentials is None:
            raise UsageError(
                f"{self._subject} needs AWS credentials, but none were found. Run `aws configure`, set "
                f"AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or set a key in {key_variable}."
            )
        return AwsSigner(credentials, service, region)

    def _find_credentials(self) -> Any:
        """Returns botocore's credentials by its usual chain; None if there are none."""
        from botocore.credentials import Credentials
        from botocore.exceptions import BotoCoreError

        key, secret, token = (
            self._environ.get(f"AWS_{name}", "").strip() or None
            for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")
        )
        if self._profile is None and key and secret:
            return Credentials(key, secret, token)
        try:
            return self._open_session().get_credentials()
        except BotoCoreError as error:
            raise UsageError(
                f"{self._subject} cannot get AWS credentials: {error}. Run `aws configure`."
            ) from error

    def _read_profile_region(self) -> str | None:
        """Returns the region of the profile; None without botocore, which knows where its file is."""
        try:
            from botocore.exceptions import BotoCoreError
        except ImportError:
            return None
        try:
            region = self._open_session().get_scoped_config().get("region")
        except BotoCoreError as error:
            raise UsageError(f"{self._subject} cannot get an AWS region: {error}. Set AWS_REGION.") from error
        return region if isinstance(region, str) else None

    def _open_session(self) -> Any:
        from botocore.session import Session

        session = Session(profile=self._profile or self._environ.get("AWS_PROFILE") or None)
        for name, variable in _FILE_VARIABLES.items():
            if path := self._environ.get(variable):
                session.set_config_variable(name, path)
        return session

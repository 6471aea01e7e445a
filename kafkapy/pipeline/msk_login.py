"""The login of a pipeline's client in Python at Amazon MSK, by AWS's IAM.

Java's clients have a mechanism of their own for it, AWS_MSK_IAM. All others show a signed URL as the token
of OAUTHBEARER, at the same listeners; Amazon's library signs it. Both find the credentials where AWS's SDKs
look for them. Source: aws-msk-iam-auth and aws-msk-iam-sasl-signer-python, by Amazon.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafkapy.pipeline.pipeline_error import PipelineError

MSK_IAM: Final = "AWS_MSK_IAM"
MSK_MODULE: Final = "software.amazon.msk.auth.iam.IAMLoginModule"
_HANDLER: Final = re.compile(r"software\.amazon\.msk\.auth\.iam\.IAM(OAuthBearerLogin|Client)CallbackHandler")
_PROFILE, _ROLE, _SESSION = "awsProfileName", "awsRoleArn", "awsRoleSessionName"
# The last three say nothing about who logs in.
_OPTIONS: Final = {_PROFILE, _ROLE, _SESSION, "awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"}
_REGION: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


def is_msk_handler(java_class: str) -> bool:
    """Whether this class of Java logs in with IAM."""
    return _HANDLER.fullmatch(java_class) is not None


@dataclass(frozen=True)
class MskLogin:
    """Whose credentials count: a profile's, a role's, or by default the machine's."""

    profile: str | None = None
    role: str | None = None
    session: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> MskLogin:
        """The login that the options of a JAAS line describe.

        Raises PipelineError for an option that only Java's clients know.
        """
        if unknown := sorted(given.keys() - _OPTIONS):
            raise PipelineError(
                f"kafka.sasl.jaas.config: {unknown[0]} is known to Java's clients only; let the pipeline log "
                f"in with {_PROFILE}, {_ROLE} and {_SESSION}, or with the credentials of the machine"
            )
        return cls(given.get(_PROFILE), given.get(_ROLE), given.get(_SESSION))

    def options(self, bootstrap: str) -> dict[str, Any]:
        """librdkafka's options for it.

        Raises PipelineError if Amazon's library is not installed, or the region is nowhere named.
        """
        try:
            import aws_msk_iam_sasl_signer  # noqa: F401
            from boto3.session import Session
        except ImportError:
            raise PipelineError(
                "kafka.sasl.mechanism: the rights of IAM need Amazon's library; pip install 'kafkapy[msk]'"
            ) from None
        named = _REGION.search(bootstrap)
        region = named[1] if named else os.environ.get("AWS_REGION")  # boto3 does not read it, Java does
        region = region or Session(profile_name=self.profile).region_name
        if not region:
            raise PipelineError(
                f"kafka.sasl.mechanism: the region of {bootstrap} is not known; set AWS_REGION to it"
            )
        return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": functools.partial(self._token, region)}

    def _token(self, region: str, _: str) -> tuple[str, float]:
        """A token, and when it expires, in seconds since the epoch."""
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer

        if self.role:
            session = {"sts_session_name": self.session} if self.session else {}
            token, expires_ms = Signer.generate_auth_token_from_role_arn(region, self.role, **session)
        elif self.profile:
            token, expires_ms = Signer.generate_auth_token_from_profile(region, self.profile)
        else:
            token, expires_ms = Signer.generate_auth_token(region)
        return token, expires_ms / 1000

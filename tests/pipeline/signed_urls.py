"""A broker's check of the tokens that clients show to Amazon MSK, with one known key."""

from __future__ import annotations

import base64
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from kafkapy.logins import TokenChecker, TokenOwner

REGION: Final = "eu-west-1"
KEY_ID, SECRET = "AKIATHEPIPELINE", "the secret of the key"
OWNER: Final = "the-pipeline"


class SignedUrls(TokenChecker):
    """A token is a URL of Amazon MSK, signed as version 4 of AWS's signatures is."""

    def check(self, token: str) -> TokenOwner | None:
        url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
        given = dict(parse_qsl(url.query))
        signature = given.pop("X-Amz-Signature")
        del given["User-Agent"]  # which is added to the signed URL
        asked = AWSRequest("GET", f"{url.scheme}://{url.netloc}/", params=given)
        asked.context["timestamp"] = given["X-Amz-Date"]
        signer = SigV4QueryAuth(Credentials(KEY_ID, SECRET), "kafka-cluster", REGION)
        text = signer.string_to_sign(asked, signer.canonical_request(asked))
        is_right = (
            url.netloc == f"kafka.{REGION}.amazonaws.com"
            and given["Action"] == "kafka-cluster:Connect"
            and given["X-Amz-Credential"].startswith(f"{KEY_ID}/")
            and signer.signature(text, asked) == signature
        )
        return TokenOwner(OWNER) if is_right else None


def environment() -> dict[str, str]:
    """The variables in which AWS's libraries look for a key and a region."""
    return {
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }

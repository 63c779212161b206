"""Prints a new private key (PEM) and its public key (DER, base64) as JSON: ``python -m`` this module.

It is a separate process because the library for keys takes 5 MB of memory and the agent needs it once.
"""

import base64
import json
import sys

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def main() -> None:
    """Write the key to standard output."""
    key = ec.generate_private_key(ec.SECP256R1())
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(serialization.Encoding.PEM, form, plain).decode()
    json.dump({"private": private, "public": base64.b64encode(public).decode()}, sys.stdout)


if __name__ == "__main__":
    main()

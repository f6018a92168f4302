"""Whether a certificate and its key will do, said before anything is started with them."""

from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key


def certificate_problem(certificate: Path, key: Path, now: datetime) -> str | None:
    """What is wrong with a PEM certificate and its key at a time (with its zone), None if nothing is."""
    try:
        shown = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        return f"http.tls.certificate = {certificate}: {_words(error)}"
    try:
        private = load_pem_private_key(key.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        return f"http.tls.key = {key}: {_words(error)}"
    if now > shown.not_valid_after_utc:
        return f"http.tls.certificate = {certificate}: expired on {shown.not_valid_after_utc:%Y-%m-%d}"
    if now < shown.not_valid_before_utc:
        return f"http.tls.certificate = {certificate}: not valid before {shown.not_valid_before_utc:%Y-%m-%d}"
    format_ = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if shown.public_key().public_bytes(*format_) != private.public_key().public_bytes(*format_):
        return f"http.tls.key = {key}: not the key of {certificate}"
    return None


def _words(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "not in PEM format, or encrypted"

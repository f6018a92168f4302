"""A certificate of one's own making, as a person makes who has none."""

import base64
import hashlib
import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from configs.fleet import Tls


def self_signed(folder: Path, *addresses: str, begins: timedelta = timedelta(0), days: float = 1) -> Tls:
    """Certificate and key for some IP addresses, valid from `begins` from now on, as files in `folder`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "firstclause test")])
    begin = datetime.now(UTC) + begins - timedelta(minutes=1)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(one)) for one in addresses])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).add_extension(names, critical=False)
    certificate = (
        builder.not_valid_before(begin).not_valid_after(begin + timedelta(days=days)).sign(key, hashes.SHA256())
    )
    tls = Tls(certificate=folder / "certificate.pem", key=folder / "key.pem")
    tls.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    tls.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return tls


def trusted_by_chromium(tls: Tls) -> str:
    """The flag that makes Chromium trust this certificate and no other that is unsigned."""
    certificate = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    public = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"--ignore-certificate-errors-spki-list={base64.b64encode(hashlib.sha256(public).digest()).decode()}"

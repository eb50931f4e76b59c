"""Certificates by which the parts of one server know each other. Nothing outside that server ever sees or trusts them."""

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from farmiq.stack.private_files import private_folder, write_private

# A farm's computer may have no clock that survives a power cut. Who may enter is decided by the key, which is new at each start.
_FROM, _UNTIL = datetime(1970, 1, 2, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, crl_sign=False, encipher_only=False, decipher_only=False,
)  # fmt: skip


def write_certificates(folder: Path, name: str) -> None:
    """`ca.pem`, and `cert.pem` with its `key.pem`, for servers and clients alike. The authority's key is kept nowhere."""
    private_folder(folder)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = _named(f"{name} authority")
    # Python 3.13 and others refuse a certificate that does not name the key which signed it.
    signer = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(issuer, issuer, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .add_extension(signer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_named(name), issuer, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(signer), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = {"ca.pem": _pem(authority), "cert.pem": _pem(certificate), "key.pem": private.decode()}
    for file_name, text in files.items():
        write_private(folder / file_name, text)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()

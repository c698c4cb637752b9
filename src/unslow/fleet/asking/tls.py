"""TLS to a Prometheus: whom to trust, who we are, and what it means when that fails."""

import ssl

from unslow.facts.errors import UserError
from unslow.fleet.asking.access import Access

_WANTS_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE", "UNKNOWN_CA")


def context_of(access: Access) -> ssl.SSLContext:
    """With the authority and the certificate that the user named; UserError where a file can't be used."""
    try:
        context = ssl.create_default_context(cafile=access.ca_file or None)
    except (OSError, ValueError) as error:
        raise UserError(f"{access.ca_file}: {_why(error)}", "it holds the authority's certificate as PEM") from error
    if not access.check_certificate:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if access.certificate:
        _add_certificate(context, access)
    return context


def _add_certificate(context: ssl.SSLContext, access: Access) -> None:
    try:
        # An empty password, or OpenSSL asks for one on the terminal.
        context.load_cert_chain(access.certificate, access.key or None, password="")
    except (OSError, ValueError) as error:
        named = " and ".join(file for file in (access.certificate, access.key) if file)
        hint = "they hold the client's certificate and its key as PEM, the key without a password"
        raise UserError(f"{named}: {_why(error)}", hint) from error


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
        return "not a certificate or key that can be used"
    return error.strerror or "can't be read"


def tls_error(shown_url: str, error: Exception) -> UserError | None:
    """What a failure of TLS means; None for any other."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "--ca-file names the file of its authority; --insecure asks without checking"
        return UserError(f"{shown_url}: its certificate is not trusted: {error.verify_message}", hint)
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    reason = error.reason or ""
    if any(word in reason for word in _WANTS_CERTIFICATE):
        return UserError(f"{shown_url} asks for a certificate of the client", "name it with --cert and --key")
    if "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason or "RECORD_LAYER" in reason:
        return UserError(f"{shown_url} does not speak TLS", f"try http://{shown_url.partition('://')[2]}")
    return UserError(f"{shown_url}: TLS failed: {reason.lower().replace('_', ' ') or 'no reason given'}")

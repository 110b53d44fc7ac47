//! The validity period of certificates.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

/// The log has warnings if a certificate expires in fewer days than this.
pub const WARNING_DAYS: i64 = 30;

/// The expiry of a DER certificate, in seconds since 1970.
///
/// # Errors
/// The bytes are not a certificate, or it is not valid at `now`.
pub(crate) fn valid_until(certificate: &[u8], now: i64) -> Result<i64, String> {
    let parsed = X509Certificate::from_der(certificate);
    let (_, certificate) = parsed.map_err(|error| format!("not an X.509 certificate: {error}"))?;
    let validity = certificate.validity();
    let name = certificate.subject();
    let words = |time: ASN1Time| time.to_string();
    let end = validity.not_after.timestamp();
    if end < now {
        let end = words(validity.not_after);
        return Err(format!("the certificate of {name} expired at {end}"));
    }
    if validity.not_before.timestamp() > now {
        let begin = words(validity.not_before);
        return Err(format!("the certificate of {name} is valid only from {begin} on"));
    }
    Ok(end)
}

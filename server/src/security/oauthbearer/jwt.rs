//! Signed JSON Web Tokens (RFC 7519; RFC 7515, compact form). Claims are parsed only after the
//! signature was verified. Before that, only the token's header is parsed.

use super::algorithm::Algorithm;
use super::claims::Claims;
use super::jwks::Jwks;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The longest token. Common issuers make tokens of a few KiB.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// The longest header, as text.
const HEADER_BYTES_MAX: usize = 16 << 10;

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
    cty: Option<String>,
}

/// Verifies the signature of a token, and parses its claims.
///
/// # Errors
/// The reason, for the log.
pub(super) fn verify(token: &str, keys: &Jwks) -> Result<Claims, &'static str> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err("a token that is too long");
    }
    let (signed, signature) = token.rsplit_once('.').ok_or("a token that is not a JWT")?;
    let (header, claims) = signed.split_once('.').ok_or("a token that is not a JWT")?;
    let header = read_header(header)?;
    let algorithm =
        Algorithm::by_name(&header.alg).ok_or("a token with an algorithm not served")?;
    let signature = decode(signature)?;
    keys.verify(algorithm, header.kid.as_deref(), signed.as_bytes(), &signature)?;
    serde_json::from_slice(&decode(claims)?).map_err(|_| "a token with malformed claims")
}

fn read_header(text: &str) -> Result<Header, &'static str> {
    if text.len() > HEADER_BYTES_MAX {
        return Err("a token with too long a header");
    }
    let header: Header =
        serde_json::from_slice(&decode(text)?).map_err(|_| "a token with a malformed header")?;
    if header.crit.is_some() {
        return Err("a token with extensions that must be understood");
    }
    if header.cty.as_ref().is_some_and(|it| it.eq_ignore_ascii_case("jwt")) {
        return Err("a token within a token");
    }
    Ok(header)
}

fn decode(text: &str) -> Result<Vec<u8>, &'static str> {
    BASE64URL.decode(text).map_err(|_| "a token that is not base64url")
}

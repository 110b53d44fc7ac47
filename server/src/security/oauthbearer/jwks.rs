//! The public keys of token issuers: a JSON Web Key Set (RFC 7517).

use super::algorithm::{Algorithm, Curve, PublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use serde::Deserialize;
use std::fmt;

/// The maximum number of keys in a set.
const KEYS_MAX: usize = 256;

/// The length of an RSA modulus in bytes: 2,048 to 8,192 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1_024;

/// The longest RSA exponent, in bytes.
const EXPONENT_BYTES_MAX: usize = 8;

/// The first byte of an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// The keys that verify tokens. The default has no keys, and accepts no token.
#[derive(Debug, Clone, Default)]
pub struct Jwks {
    keys: Vec<Key>,
}

#[derive(Debug, Clone)]
struct Key {
    id: Option<String>,
    /// The algorithm that the key set names for this key. The key is used for no other algorithm.
    algorithm: Option<String>,
    public: PublicKey,
}

/// The reason why a key set cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct JwksError(String);

impl fmt::Display for JwksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Jwk>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Jwks {
    /// Parses a key set. Keys of other kinds, and keys for encryption, are ignored.
    ///
    /// # Errors
    /// The text is not a key set or has too many keys, a key is malformed or weak, or no usable key
    /// remains.
    pub fn parse(text: &[u8]) -> Result<Self, JwksError> {
        let set: Set = serde_json::from_slice(text)
            .map_err(|error| JwksError(format!("it is not a JSON Web Key Set: {error}")))?;
        if set.keys.len() > KEYS_MAX {
            return Err(JwksError(format!("it has more than {KEYS_MAX} keys")));
        }
        let read = |(index, jwk): (usize, Jwk)| {
            let name = jwk.kid.clone().map_or(format!("number {index}"), |kid| format!("{kid:?}"));
            Key::read(jwk).map_err(|why| JwksError(format!("its key {name} {why}"))).transpose()
        };
        let keys: Vec<_> =
            set.keys.into_iter().enumerate().filter_map(read).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(JwksError("it has no key of the types RSA, P-256 and P-384".to_owned()));
        }
        Ok(Self { keys })
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Verifies a signature with the key whose id the token has. If the token has no key id, there
    /// must be exactly one key for its algorithm.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), &'static str> {
        let of_algorithm = self.keys.iter().filter(|key| key.is_for(algorithm));
        let candidates: Vec<_> = match id {
            Some(id) => of_algorithm.filter(|key| key.id.as_deref() == Some(id)).collect(),
            None => of_algorithm.collect(),
        };
        if candidates.is_empty() {
            return Err("a token of a key that is not known");
        }
        if id.is_none() && candidates.len() > 1 {
            return Err("a token that does not name its key, and there are several");
        }
        let verifies = |key: &&Key| algorithm.verifies(&key.public, message, signature);
        candidates.iter().any(verifies).then_some(()).ok_or("a token with a wrong signature")
    }
}

impl Key {
    /// Reads a key; None if it cannot verify tokens.
    fn read(jwk: Jwk) -> Result<Option<Self>, String> {
        if jwk.used_for.as_deref().is_some_and(|it| it != "sig") {
            return Ok(None);
        }
        let public = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => rsa(&jwk)?,
            ("EC", Some("P-256")) => ec(&jwk, Curve::P256, 32)?,
            ("EC", Some("P-384")) => ec(&jwk, Curve::P384, 48)?,
            _ => return Ok(None),
        };
        Ok(Some(Self { id: jwk.kid, algorithm: jwk.alg, public }))
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        let is_named = self.algorithm.as_deref().is_none_or(|name| name == algorithm.name);
        is_named && algorithm.takes(&self.public)
    }
}

fn rsa(jwk: &Jwk) -> Result<PublicKey, String> {
    let (n, e) = (number("n", jwk.n.as_deref())?, number("e", jwk.e.as_deref())?);
    if !MODULUS_BYTES.contains(&n.len()) || !(1..=EXPONENT_BYTES_MAX).contains(&e.len()) {
        return Err(format!("has {} bits: RSA keys have 2048 to 8192", n.len() * 8));
    }
    Ok(PublicKey::Rsa { n, e })
}

/// Decodes an unsigned number, without leading zeros.
fn number(name: &str, text: Option<&str>) -> Result<Vec<u8>, String> {
    let bytes = decode(name, text)?;
    Ok(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn ec(jwk: &Jwk, curve: Curve, bytes: usize) -> Result<PublicKey, String> {
    let mut point = vec![UNCOMPRESSED];
    for (name, text) in [("x", jwk.x.as_deref()), ("y", jwk.y.as_deref())] {
        let coordinate = decode(name, text)?;
        if coordinate.len() != bytes {
            return Err(format!("has {} bytes of {name}, not {bytes}", coordinate.len()));
        }
        point.extend(coordinate);
    }
    Ok(PublicKey::Ec(curve, point))
}

fn decode(name: &str, text: Option<&str>) -> Result<Vec<u8>, String> {
    let text = text.ok_or_else(|| format!("has no {name}"))?;
    BASE64URL.decode(text).map_err(|_| format!("has a field {name} that is not base64url"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Jwks::parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn sets_that_cannot_be_used_are_refused_with_the_reason() {
        assert!(refused("junk").starts_with("it is not a JSON Web Key Set"));
        assert!(refused("{}").contains("missing field `keys`"));
        assert!(refused(r#"{"keys":[{"kid":"a"}]}"#).contains("missing field `kty`"));
        let none = "it has no key of the types RSA, P-256 and P-384";
        assert_eq!(refused(r#"{"keys":[]}"#), none);
        for other in [
            r#"{"kty":"oct","k":"c2VjcmV0"}"#,
            r#"{"kty":"EC","crv":"P-521","x":"","y":""}"#,
            r#"{"kty":"RSA","use":"enc","n":"","e":""}"#,
        ] {
            assert_eq!(refused(&format!(r#"{{"keys":[{other}]}}"#)), none);
        }
        let weak = format!(r#"{{"kty":"RSA","kid":"w","n":"{}","e":"AQAB"}}"#, "__".repeat(86));
        assert!(refused(&format!(r#"{{"keys":[{weak}]}}"#)).contains(r#"its key "w" has"#));
        let short = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}]}"#;
        assert_eq!(refused(short), "its key number 0 has 3 bytes of x, not 32");
        let malformed = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"=","y":"AAAA"}]}"#;
        assert_eq!(refused(malformed), "its key number 0 has a field x that is not base64url");
        let many = vec![r#"{"kty":"oct"}"#; KEYS_MAX + 1].join(",");
        assert!(refused(&format!(r#"{{"keys":[{many}]}}"#)).contains("more than 256"));
    }
}

//! The claims of a token, and a listener's rules for them, as in Kafka's `BrokerJwtValidator`.
//! (Most of these rules are from its library jose4j.)

use super::Accepted;
use muster_codec::Wall;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A listener's rules for claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRules {
    /// The token must name one of these audiences. If the list is empty, the token must name none.
    pub audiences: Vec<String>,
    pub issuer: Option<String>,
    /// The allowed difference between clocks.
    pub skew_seconds: i64,
    /// The name of the claim that contains the user's name.
    pub sub_claim: String,
    pub scope_claim: String,
}

/// The claims of a token by name.
pub(super) struct Claims(BTreeMap<String, Value>);

/// Claims that must be strings if present.
const TEXTS: [&str; 3] = ["iss", "sub", "jti"];

/// The latest valid time in seconds: the end of the year 9999.
const TIME_MAX: i64 = 253_402_300_799;

impl TokenRules {
    /// # Errors
    /// The reason, for the log.
    pub(super) fn check(&self, claims: &Claims, now: Wall) -> Result<Accepted, &'static str> {
        let expires = self.check_times(claims, now.0.div_euclid(1_000))?;
        if TEXTS.iter().any(|name| claims.get(name).is_some_and(|it| !it.is_string())) {
            return Err("a token with a claim that is not a string");
        }
        self.check_audience(claims)?;
        let is_issuer = |issuer: &String| claims.get("iss").is_some_and(|it| it == issuer.as_str());
        if !self.issuer.as_ref().is_none_or(is_issuer) {
            return Err("a token of another issuer");
        }
        check_scopes(claims.get(&self.scope_claim))?;
        let name = claims.get(&self.sub_claim).and_then(Value::as_str).map(trimmed);
        let name = name.filter(|name| !name.is_empty()).ok_or("a token without a name")?;
        let expires_at = Wall(expires * 1_000);
        Ok(Accepted { name: name.to_owned(), expires_at })
    }

    /// Checks the times. Returns when the token expires. All times are in seconds.
    fn check_times(&self, claims: &Claims, now: i64) -> Result<i64, &'static str> {
        let expires = claims.time("exp")?.ok_or("a token that never expires")?;
        let issued = claims.time("iat")?.ok_or("a token without the time of its issue")?;
        let begins = claims.time("nbf")?;
        if now.saturating_sub(self.skew_seconds) >= expires {
            return Err("a token that has expired");
        }
        if begins.is_some_and(|at| now.saturating_add(self.skew_seconds) < at) {
            return Err("a token that is not valid yet");
        }
        if expires < issued || begins.is_some_and(|at| expires < at) || expires < 0 || issued < 0 {
            return Err("a token that expires before it is valid");
        }
        Ok(expires)
    }

    fn check_audience(&self, claims: &Claims) -> Result<(), &'static str> {
        let audience = match claims.get("aud") {
            None if self.audiences.is_empty() => return Ok(()),
            None => return Err("a token without an audience"),
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(all)) => {
                let texts: Option<_> = all.iter().map(Value::as_str).collect();
                texts.ok_or("a token with a malformed audience")?
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                return Err("a token with a malformed audience");
            }
        };
        let is_expected = |one: &&str| self.audiences.iter().any(|it| it == one);
        audience.iter().any(is_expected).then_some(()).ok_or("a token for another audience")
    }
}

/// Checks that the scopes are a string or a list of distinct strings. They have no other effect.
fn check_scopes(scopes: Option<&Value>) -> Result<(), &'static str> {
    let scopes = match scopes {
        Some(Value::Array(all)) => all.as_slice(),
        Some(one @ Value::String(_)) => std::slice::from_ref(one),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => &[],
    };
    let mut seen = BTreeSet::new();
    let mut is_new = |scope: &Value| {
        scope.as_str().map(trimmed).is_some_and(|it| !it.is_empty() && seen.insert(it.to_owned()))
    };
    scopes.iter().all(&mut is_new).then_some(()).ok_or("a token with malformed scopes")
}

/// Trims a text like Java.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

impl Claims {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A claim that is a time, in whole seconds.
    fn time(&self, name: &str) -> Result<Option<i64>, &'static str> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let seconds = value.as_i64().or_else(|| value.as_f64().map(|it| it as i64));
        let seconds = seconds.filter(|seconds| *seconds <= TIME_MAX);
        seconds.map(Some).ok_or("a token with a malformed time")
    }
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ClaimsVisitor)
    }
}

struct ClaimsVisitor;

impl<'de> Visitor<'de> for ClaimsVisitor {
    type Value = Claims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("claims by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Claims, A::Error> {
        let mut claims = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if claims.insert(name, value).is_some() {
                return Err(A::Error::custom("a claim that is there twice"));
            }
        }
        Ok(Claims(claims))
    }
}

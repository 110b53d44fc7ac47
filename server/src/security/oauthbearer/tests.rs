//! Accepted and refused tokens: signatures of each algorithm, claims, and tokens with a change at
//! any place.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
    RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};
use std::sync::LazyLock;

const NOW: i64 = 1_000_000;

/// A key that is used only here.
static RSA: LazyLock<RsaKeyPair> =
    LazyLock::new(|| RsaKeyPair::from_pkcs8(include_bytes!("tests/rsa-2048.p8")).unwrap());

fn rsa_jwk(more: &Value) -> Value {
    let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(RSA.public());
    with(json!({"kty": "RSA", "n": BASE64URL.encode(n), "e": BASE64URL.encode(e)}), more)
}

fn with(mut value: Value, more: &Value) -> Value {
    let more = more.as_object().unwrap().clone();
    value.as_object_mut().unwrap().extend(more);
    value
}

fn keys(jwks: &[Value]) -> Jwks {
    Jwks::parse(json!({ "keys": jwks }).to_string().as_bytes()).unwrap()
}

fn bearer(keys: Jwks) -> Bearer {
    let rules = TokenRules {
        audiences: Vec::new(),
        issuer: None,
        skew_seconds: 30,
        sub_claim: "sub".to_owned(),
        scope_claim: "scope".to_owned(),
    };
    Bearer { rules, keys: keys.into() }
}

/// The signed part of a token.
fn signed_part(header: &str, claims: &str) -> String {
    format!("{}.{}", BASE64URL.encode(header), BASE64URL.encode(claims))
}

fn by_rsa(part: &str, encoding: &'static dyn RsaEncoding) -> String {
    let mut signature = vec![0; RSA.public().modulus_len()];
    RSA.sign(encoding, &SystemRandom::new(), part.as_bytes(), &mut signature).unwrap();
    format!("{part}.{}", BASE64URL.encode(signature))
}

fn claims() -> Value {
    json!({"sub": "alice", "iat": NOW - 100, "exp": NOW + 100})
}

fn token_of(header: &Value, claims: &str) -> String {
    by_rsa(&signed_part(&header.to_string(), claims), &RSA_PKCS1_SHA256)
}

fn token(claims: &Value) -> String {
    token_of(&json!({"alg": "RS256"}), &claims.to_string())
}

fn message(token: &str) -> Vec<u8> {
    format!("n,,\x01auth=Bearer {token}\x01\x01").into_bytes()
}

/// The user's name, or the reason why the token is refused.
fn outcome(bearer: &Bearer, token: &str) -> Result<String, &'static str> {
    match authenticate(&message(token), bearer, Wall(NOW * 1_000 + 999)).unwrap() {
        Ok(accepted) => Ok(accepted.name),
        Err(refused) => {
            assert_eq!(refused.words.as_deref(), Some(REFUSAL));
            Err(refused.why)
        }
    }
}

#[test]
fn each_algorithm_is_verified_and_none_for_another() {
    let rsa: [(&str, &'static dyn RsaEncoding); 6] = [
        ("RS256", &RSA_PKCS1_SHA256),
        ("RS384", &RSA_PKCS1_SHA384),
        ("RS512", &RSA_PKCS1_SHA512),
        ("PS256", &RSA_PSS_SHA256),
        ("PS384", &RSA_PSS_SHA384),
        ("PS512", &RSA_PSS_SHA512),
    ];
    let bearer = bearer(keys(&[rsa_jwk(&json!({}))]));
    for (signed_as, encoding) in rsa {
        for (named, _) in rsa {
            let header = json!({ "alg": named }).to_string();
            let token = by_rsa(&signed_part(&header, &claims().to_string()), encoding);
            assert_eq!(outcome(&bearer, &token).is_ok(), named == signed_as, "{named}");
        }
    }
    let curves: [(&str, &str, &'static EcdsaSigningAlgorithm); 2] = [
        ("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
        ("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
    ];
    for (name, curve, algorithm) in curves {
        let random = SystemRandom::new();
        let secret = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, secret.as_ref(), &random).unwrap();
        let (x, y) = pair.public_key().as_ref()[1..].split_at(pair.public_key().as_ref().len() / 2);
        let [x, y] = [x, y].map(|it| BASE64URL.encode(it));
        let jwk = json!({"kty": "EC", "crv": curve, "x": x, "y": y});
        let part = signed_part(&json!({ "alg": name }).to_string(), &claims().to_string());
        let signature = pair.sign(&random, part.as_bytes()).unwrap();
        let token = format!("{part}.{}", BASE64URL.encode(signature));
        assert_eq!(outcome(&self::bearer(keys(&[jwk])), &token).as_deref(), Ok("alice"), "{name}");
        assert_eq!(outcome(&bearer, &token), Err("a token of a key that is not known"));
    }
}

#[test]
fn tokens_without_a_signature_or_with_that_of_a_secret_are_refused() {
    let bearer = bearer(keys(&[rsa_jwk(&json!({}))]));
    let not_served = Err("a token with an algorithm not served");
    for name in ["none", "None", "HS256", "HS512", "ES512", "EdDSA", "RS1", "rs256", ""] {
        let part = signed_part(&json!({ "alg": name }).to_string(), &claims().to_string());
        for signature in ["", "AAAA"] {
            assert_eq!(outcome(&bearer, &format!("{part}.{signature}")), not_served, "{name}");
        }
    }
    for (header, why) in [
        (r#"{}"#, "a token with a malformed header"),
        (r#"{"alg":1}"#, "a token with a malformed header"),
        (r#"{"alg":"RS256","alg":"RS256"}"#, "a token with a malformed header"),
        (r#"{"alg":"RS256","crit":["exp"]}"#, "a token with extensions that must be understood"),
        (r#"{"alg":"RS256","cty":"JWT"}"#, "a token within a token"),
        ("junk", "a token with a malformed header"),
    ] {
        let token = by_rsa(&signed_part(header, &claims().to_string()), &RSA_PKCS1_SHA256);
        assert_eq!(outcome(&bearer, &token), Err(why), "{header}");
    }
    for token in ["a", "a.b", "..", "a.b.c.d"] {
        assert!(outcome(&bearer, token).is_err(), "{token}");
    }
    let long = token(&with(claims(), &json!({"x": "x".repeat(64 << 10)})));
    assert_eq!(outcome(&bearer, &long), Err("a token that is too long"));
    let no_keys = self::bearer(Jwks::default());
    assert_eq!(outcome(&no_keys, &token(&claims())), Err("a token of a key that is not known"));
}

#[test]
fn a_token_names_its_key_where_there_are_several() {
    let two = bearer(keys(&[rsa_jwk(&json!({"kid": "a"})), rsa_jwk(&json!({"kid": "b"}))]));
    let named = |kid: &str| token_of(&json!({"alg": "RS256", "kid": kid}), &claims().to_string());
    assert!(outcome(&two, &named("b")).is_ok());
    assert_eq!(outcome(&two, &named("c")), Err("a token of a key that is not known"));
    let unnamed = Err("a token that does not name its key, and there are several");
    assert_eq!(outcome(&two, &token(&claims())), unnamed);
    let one = bearer(keys(&[rsa_jwk(&json!({"alg": "RS256"})), rsa_jwk(&json!({"alg": "PS256"}))]));
    assert!(outcome(&one, &token(&claims())).is_ok(), "one of them is for its algorithm");
}

#[test]
fn claims_are_checked_as_in_kafka() {
    let bearer = bearer(keys(&[rsa_jwk(&json!({}))]));
    let mut strict = bearer.clone();
    strict.rules.audiences = vec!["kafka".to_owned(), "muster".to_owned()];
    strict.rules.issuer = Some("https://issuer".to_owned());
    let is = |bearer: &Bearer, more: Value| outcome(bearer, &token(&with(claims(), &more)));
    let of_issuer = |more: Value| with(json!({"iss": "https://issuer", "aud": "kafka"}), &more);
    for (more, why) in [
        (json!({"exp": null}), "a token that never expires"),
        (json!({"exp": "x"}), "a token with a malformed time"),
        (json!({"exp": 253_402_300_800_i64}), "a token with a malformed time"),
        (json!({"exp": 1.0e300}), "a token with a malformed time"),
        (json!({"exp": NOW - 30}), "a token that has expired"),
        (json!({"iat": null}), "a token without the time of its issue"),
        (json!({"iat": NOW + 101}), "a token that expires before it is valid"),
        (json!({"iat": -1}), "a token that expires before it is valid"),
        (json!({"nbf": NOW + 31}), "a token that is not valid yet"),
        (json!({"sub": null}), "a token without a name"),
        (json!({"sub": " \t"}), "a token without a name"),
        (json!({"sub": 1}), "a token with a claim that is not a string"),
        (json!({"jti": 1}), "a token with a claim that is not a string"),
        (json!({"scope": " "}), "a token with malformed scopes"),
        (json!({"scope": ["a", "a "]}), "a token with malformed scopes"),
        (json!({"scope": ["a", 1]}), "a token with malformed scopes"),
        (json!({"aud": "other"}), "a token for another audience"),
        (json!({"aud": []}), "a token for another audience"),
        (json!({"aud": [1]}), "a token with a malformed audience"),
        (json!({"aud": {}}), "a token with a malformed audience"),
        (json!({"aud": null}), "a token without an audience"),
        (json!({"iss": "https://issuer/"}), "a token of another issuer"),
        (json!({"iss": null}), "a token of another issuer"),
    ] {
        let more = of_issuer(more);
        assert_eq!(is(&strict, more.clone()), Err(why), "{more}");
    }
    for more in [
        json!({}),
        json!({"exp": NOW - 29}),
        json!({"exp": (NOW as f64) + 0.5}),
        json!({"nbf": NOW + 30}),
        json!({"iat": NOW + 50}),
        json!({"aud": ["x", "muster"]}),
        json!({"scope": ["a", "b"]}),
        json!({"scope": {}}),
        json!({"sub": " alice "}),
    ] {
        assert_eq!(is(&strict, of_issuer(more.clone())).as_deref(), Ok("alice"), "{more}");
    }
    assert_eq!(is(&bearer, json!({"aud": "kafka"})), Err("a token for another audience"));
    let twice = r#"{"sub":"alice","sub":"bob","iat":1,"exp":2000000}"#;
    let token = token_of(&json!({"alg": "RS256"}), twice);
    assert_eq!(outcome(&bearer, &token), Err("a token with malformed claims"));
    let mut email = bearer;
    email.rules.sub_claim = "email".to_owned();
    assert_eq!(is(&email, json!({"email": "a@b"})).as_deref(), Ok("a@b"));
}

#[test]
fn another_name_than_that_of_the_token_is_refused() {
    let bearer = bearer(keys(&[rsa_jwk(&json!({}))]));
    let token = token(&claims());
    let as_name = |name: &str| {
        let message = format!("n,a={name},\x01auth=Bearer {token}\x01\x01");
        authenticate(message.as_bytes(), &bearer, Wall(NOW * 1_000))
    };
    let accepted = as_name("alice").unwrap().unwrap();
    assert_eq!(accepted.expires_at, Wall((NOW + 100) * 1_000));
    let words = "Authentication failed: Client requested an authorization id (bob) that is \
                 different from the token's principal name (alice)";
    assert_eq!(as_name("bob").unwrap_err().words.as_deref(), Some(words));
    assert_eq!(as_name("").unwrap_err(), Failure::MALFORMED);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_token_that_was_changed_is_accepted(
        place in any::<prop::sample::Index>(),
        kind in 0..3,
        byte in any::<u8>(),
    ) {
        let bearer = bearer(keys(&[rsa_jwk(&json!({}))]));
        let mut changed = message(&token(&claims()));
        let at = place.index(changed.len());
        let before = changed.clone();
        match kind {
            0 => changed[at] = byte,
            1 => changed.insert(at, byte),
            _ => changed.truncate(at),
        }
        // Some changes have no effect: for example, the scheme may be in upper or lower case.
        let is_same = message::read(&changed) == message::read(&before);
        let outcome = authenticate(&changed, &bearer, Wall(NOW * 1_000));
        prop_assert!(is_same || !matches!(outcome, Ok(Ok(_))));
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let bearer = bearer(keys(&[rsa_jwk(&json!({}))]));
        let _ = authenticate(&bytes, &bearer, Wall(NOW * 1_000));
        let token = format!("{}.{}.AA", BASE64URL.encode(&bytes), BASE64URL.encode(&bytes));
        let _ = authenticate(&message(&token), &bearer, Wall(NOW * 1_000));
        let signed = token_of(&json!({"alg": "RS256"}), &String::from_utf8_lossy(&bytes));
        prop_assert!(!matches!(
            authenticate(&message(&signed), &bearer, Wall(NOW * 1_000)),
            Ok(Ok(_))
        ));
    }
}

//! Signature algorithms of tokens (RFC 7518). Only public-key algorithms are accepted: with a
//! shared secret the server itself could sign tokens.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, EcdsaVerificationAlgorithm,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};

/// An algorithm, with its name in tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Algorithm {
    pub(super) name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Rsa(&'static RsaParameters),
    Ecdsa(Curve, &'static EcdsaVerificationAlgorithm),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
}

/// A public key.
#[derive(Debug, Clone)]
pub(super) enum PublicKey {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    Ec(Curve, Vec<u8>),
}

const ALGORITHMS: [Algorithm; 8] = [
    rsa("RS256", &RSA_PKCS1_2048_8192_SHA256),
    rsa("RS384", &RSA_PKCS1_2048_8192_SHA384),
    rsa("RS512", &RSA_PKCS1_2048_8192_SHA512),
    rsa("PS256", &RSA_PSS_2048_8192_SHA256),
    rsa("PS384", &RSA_PSS_2048_8192_SHA384),
    rsa("PS512", &RSA_PSS_2048_8192_SHA512),
    ecdsa("ES256", Curve::P256, &ECDSA_P256_SHA256_FIXED),
    ecdsa("ES384", Curve::P384, &ECDSA_P384_SHA384_FIXED),
];

const fn rsa(name: &'static str, parameters: &'static RsaParameters) -> Algorithm {
    Algorithm { name, kind: Kind::Rsa(parameters) }
}

const fn ecdsa(
    name: &'static str,
    curve: Curve,
    algorithm: &'static EcdsaVerificationAlgorithm,
) -> Algorithm {
    Algorithm { name, kind: Kind::Ecdsa(curve, algorithm) }
}

impl Algorithm {
    pub(super) fn by_name(name: &str) -> Option<Self> {
        ALGORITHMS.into_iter().find(|algorithm| algorithm.name == name)
    }

    /// Whether the algorithm can use a key.
    pub(super) fn takes(self, key: &PublicKey) -> bool {
        match (self.kind, key) {
            (Kind::Rsa(_), PublicKey::Rsa { .. }) => true,
            (Kind::Ecdsa(curve, _), PublicKey::Ec(of_key, _)) => curve == *of_key,
            (Kind::Rsa(_), PublicKey::Ec(..)) | (Kind::Ecdsa(..), PublicKey::Rsa { .. }) => false,
        }
    }

    pub(super) fn verifies(self, key: &PublicKey, message: &[u8], signature: &[u8]) -> bool {
        match (self.kind, key) {
            (Kind::Rsa(parameters), PublicKey::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Kind::Ecdsa(curve, algorithm), PublicKey::Ec(of_key, point)) if curve == *of_key => {
                UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
            }
            (Kind::Rsa(_) | Kind::Ecdsa(..), PublicKey::Rsa { .. } | PublicKey::Ec(..)) => false,
        }
    }
}

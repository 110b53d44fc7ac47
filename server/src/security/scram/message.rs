//! The messages of SCRAM clients, in the forms that Kafka accepts (`ScramMessages`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// The first message: `n,[a=authorization id],n=name,r=nonce[,extensions]`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFirst<'m> {
    /// The text before [`Self::bare`].
    pub(super) gs2_header: &'m str,
    pub(super) bare: &'m str,
    /// Empty if the message has none.
    pub(super) authorization_id: String,
    pub(super) name: String,
    pub(super) nonce: &'m str,
    /// Whether the client logs in with a delegation token (KIP-48).
    pub(super) is_by_token: bool,
}

impl<'m> ClientFirst<'m> {
    /// Parses a message. None if it is malformed, or requires channel binding or a mandatory
    /// extension. Unknown extensions are ignored, as in Kafka.
    pub(super) fn parse(message: &'m [u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (authorization, bare) = text.strip_prefix("n,")?.split_once(',')?;
        let authorization_id = match authorization {
            "" => String::new(),
            given => name(given.strip_prefix("a=")?)?,
        };
        let mut parts = bare.split(',');
        let name = name(parts.next()?.strip_prefix("n=")?)?;
        let nonce = nonce(parts.next()?)?;
        let extensions: Vec<_> = parts.map(extension).collect::<Option<_>>()?;
        Some(Self {
            gs2_header: &text[..text.len() - bare.len()],
            bare,
            authorization_id,
            name,
            nonce,
            is_by_token: extensions
                .iter()
                .any(|(key, value)| *key == "tokenauth" && value.eq_ignore_ascii_case("true")),
        })
    }
}

/// The final message: `c=channel binding,r=nonce[,extensions],p=proof`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClientFinal<'m> {
    pub(super) without_proof: &'m str,
    pub(super) channel_binding: Vec<u8>,
    pub(super) nonce: &'m str,
    pub(super) proof: Vec<u8>,
}

impl<'m> ClientFinal<'m> {
    /// Parses a message; None if it is malformed.
    pub(super) fn parse(message: &'m [u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (without_proof, proof) = text.rsplit_once(",p=")?;
        let mut parts = without_proof.split(',');
        let channel_binding = BASE64.decode(parts.next()?.strip_prefix("c=")?).ok()?;
        let nonce = nonce(parts.next()?)?;
        parts.map(extension).collect::<Option<Vec<_>>>()?;
        let proof = BASE64.decode(proof).ok()?;
        Some(Self { without_proof, channel_binding, nonce, proof })
    }
}

fn nonce(part: &str) -> Option<&str> {
    let nonce = part.strip_prefix("r=")?;
    (!nonce.is_empty() && nonce.bytes().all(|byte| byte.is_ascii_graphic())).then_some(nonce)
}

fn extension(part: &str) -> Option<(&str, &str)> {
    let (key, value) = part.split_once('=')?;
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
    (is_key && is_value(value)).then_some((key, value))
}

fn is_value(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| (1..=0x7f).contains(&byte))
}

/// Decodes a name: `=2C` is a comma and `=3D` an equals sign.
fn name(text: &str) -> Option<String> {
    let has_other_escapes = text.replace("=2C", "").replace("=3D", "").contains('=');
    let is_name = is_value(text) && !has_other_escapes;
    is_name.then(|| text.replace("=2C", ",").replace("=3D", "="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_messages_are_taken_apart() {
        let first = ClientFirst::parse(b"n,a=x=3Dy,n=a=2Cb,r=abc,tokenauth=true,k=v").unwrap();
        assert_eq!(
            (first.gs2_header, first.bare),
            ("n,a=x=3Dy,", "n=a=2Cb,r=abc,tokenauth=true,k=v")
        );
        assert_eq!((&*first.authorization_id, &*first.name, first.nonce), ("x=y", "a,b", "abc"));
        assert!(first.is_by_token);
        assert!(!ClientFirst::parse(b"n,,n=a,r=abc,tokenauth=false").unwrap().is_by_token);
    }

    #[test]
    fn malformed_messages_are_refused() {
        let firsts: [&[u8]; 17] = [
            b"",
            b"n,",
            b"n,,",
            b"n,,n=,r=a",
            b"n,,n=a",
            b"n,,n=a,r=",
            b"n,,n=a,r=a b",
            b"n,,n=a=2cb,r=a",
            b"n,,n=a=,r=a",
            b"n,,r=a,n=a",
            b"n,,m=x,n=a,r=a",
            b"y,,n=a,r=a",
            b"p=tls-unique,,n=a,r=a",
            b"n,b,n=a,r=a",
            b"n,a=,n=a,r=a",
            b"n,,n=a,r=a,x",
            b"n,,n=\xc3\xa4,r=a",
        ];
        for message in firsts {
            assert_eq!(ClientFirst::parse(message), None, "{message:?}");
        }
        let finals: [&[u8]; 7] = [
            b"",
            b"c=biws,r=a",
            b"c=biws,p=YQ==",
            b"c=*,r=a,p=YQ==",
            b"c=biws,r=a,p=*",
            b"c=biws,r=,p=YQ==",
            b"\xff,p=YQ==",
        ];
        for message in finals {
            assert_eq!(ClientFinal::parse(message), None, "{message:?}");
        }
    }
}

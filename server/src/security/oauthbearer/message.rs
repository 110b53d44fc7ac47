//! The client's first message (RFC 7628, section 3.1), parsed like Kafka's
//! `OAuthBearerClientInitialResponse`.

/// The parts in use. SASL extensions are validated and ignored.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FirstMessage<'m> {
    /// Empty if the message has none.
    pub(super) authorization_id: &'m str,
    pub(super) token: &'m str,
}

const SEPARATOR: char = '\x01';
const SCHEME: &str = "bearer";

/// Parses a message; None if it is malformed.
pub(super) fn read(message: &[u8]) -> Option<FirstMessage<'_>> {
    let message = str::from_utf8(message).ok()?;
    let (authorization_id, rest) = authorization_id(message.strip_prefix("n,")?)?;
    let pairs = rest.strip_prefix(SEPARATOR)?.strip_suffix(SEPARATOR)?;
    let mut auth = None;
    for pair in pairs.strip_suffix(SEPARATOR)?.split(SEPARATOR) {
        let (key, value) = pair.split_once('=').filter(|(key, value)| is_pair(key, value))?;
        if key == "auth" {
            auth = Some(value);
        }
    }
    Some(FirstMessage { authorization_id, token: token(auth?)? })
}

/// The authorization id, and the text after its comma.
fn authorization_id(text: &str) -> Option<(&str, &str)> {
    let Some(named) = text.strip_prefix("a=") else { return Some(("", text.strip_prefix(',')?)) };
    named.split_once(',').filter(|(name, _)| is_sasl_name(name))
}

/// Whether a name is valid. In a name, a comma must be written `=2C` and an equals sign `=3D`.
/// Kafka does not decode them, and neither does this module.
fn is_sasl_name(name: &str) -> bool {
    let unescaped = |part: &str| part.bytes().all(|byte| (0x01..=0x7F).contains(&byte));
    let mut parts = name.split('=');
    !name.is_empty()
        && parts.next().is_some_and(unescaped)
        && parts.all(|part| (part.starts_with("2C") || part.starts_with("3D")) && unescaped(part))
}

fn is_pair(key: &str, value: &str) -> bool {
    let is_letters = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic());
    let is_of_value = |byte| matches!(byte, 0x20..=0x7E | b'\t' | b'\r' | b'\n');
    is_letters && !value.is_empty() && value.bytes().all(is_of_value)
}

/// The token in `Bearer TOKEN`.
fn token(auth: &str) -> Option<&str> {
    let (scheme, token) = auth.split_once(' ')?;
    let token = token.trim_start_matches(' ');
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let holds = scheme.eq_ignore_ascii_case(SCHEME) && token.bytes().all(is_of_token);
    Some(token).filter(|token| holds && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_in_kafka() {
        for (message, expected) in [
            ("n,,\x01auth=Bearer a.b.c\x01\x01", Some(("", "a.b.c"))),
            ("n,,\x01auth=bEARER   a-_.Z9\x01\x01", Some(("", "a-_.Z9"))),
            ("n,a=user,\x01auth=Bearer t\x01\x01", Some(("user", "t"))),
            ("n,a=us=2Cer=3D,\x01auth=Bearer t\x01\x01", Some(("us=2Cer=3D", "t"))),
            ("n,,\x01traceId=12 3\x01auth=Bearer t\x01\x01", Some(("", "t"))),
            ("n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01", Some(("", "u"))),
            ("n,,\x01auth=Bearer t\x01host=a=b\x01\x01", Some(("", "t"))),
            ("", None),
            ("\x01", None),
            ("n,,", None),
            ("n,,\x01\x01", None),
            ("n,,\x01auth=Bearer t\x01", None),
            ("n,,auth=Bearer t\x01\x01", None),
            ("y,,\x01auth=Bearer t\x01\x01", None),
            ("n,a=,\x01auth=Bearer t\x01\x01", None),
            ("n,a=x=,\x01auth=Bearer t\x01\x01", None),
            ("n,a=ü,\x01auth=Bearer t\x01\x01", None),
            ("n,b=x,\x01auth=Bearer t\x01\x01", None),
            ("n,,\x01auth=Basic t\x01\x01", None),
            ("n,,\x01auth=Bearert\x01\x01", None),
            ("n,,\x01auth=Bearer \x01\x01", None),
            ("n,,\x01auth=Bearer t t\x01\x01", None),
            ("n,,\x01auth=Bearer t/\x01\x01", None),
            ("n,,\x01auth=Bearer t\x01\x01\x01", None),
            ("n,,\x01auth=Bearer t\x01 x=y\x01\x01", None),
            ("n,,\x01auth=Bearer t\x01x=\x01\x01", None),
            ("n,,\x01auth=Bearer t\x01x=\x7f\x01\x01", None),
            ("n,,\x01x=y\x01\x01", None),
        ] {
            let read = read(message.as_bytes()).map(|it| (it.authorization_id, it.token));
            assert_eq!(read, expected, "{message:?}");
        }
        assert_eq!(read(b"n,,\x01auth=Bearer \xff\x01\x01"), None);
    }
}

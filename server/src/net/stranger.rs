//! What the first bytes of a connection look like that are no request.

use muster_codec::frame::frame_length;

/// Names a protocol that is spoken to this port by mistake, and what to do about it; None if the bytes
/// look like none.
pub(crate) fn looks_like(input: &[u8]) -> Option<&'static str> {
    match input {
        // A record of a handshake, of any version of TLS.
        [0x16, 3, ..] => Some(
            "this looks like TLS, and muster serves plaintext only: the client needs \
             security.protocol=PLAINTEXT",
        ),
        _ if HTTP.iter().any(|method| input.starts_with(method.as_bytes())) => {
            Some("this looks like HTTP, and the port is one for Kafka clients")
        }
        _ if is_sasl(input) => Some(
            "this looks like SASL, and muster asks for no password: the client needs \
             security.protocol=PLAINTEXT",
        ),
        _ => None,
    }
}

/// Four characters of each are there when a length is read from them.
const HTTP: [&str; 9] = ["GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "CONN", "PRI "];

/// SaslHandshake and SaslAuthenticate.
const SASL_KEYS: [i16; 2] = [17, 36];

/// Kafka's clients ask for the versions of the APIs before, so this may be their second request.
fn is_sasl(input: &[u8]) -> bool {
    let is_frame = frame_length(input, i32::MAX.unsigned_abs()).is_ok();
    let key = input.get(4..6).map(|key| i16::from_be_bytes([key[0], key[1]]));
    is_frame && key.is_some_and(|key| SASL_KEYS.contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spoken_by_mistake_is_named() {
        let cases: [(&[u8], &str); 7] = [
            (b"\x16\x03\x01\x02\x00\x01", "TLS"),
            (b"\x16\x03\x03\x00", "TLS"),
            (b"GET / HTTP/1.1\r\n", "HTTP"),
            (b"POST", "HTTP"),
            (b"PRI * HTTP/2.0\r\n", "HTTP"),
            (b"\0\0\0\x20\0\x11\0\x01rest", "SASL"),
            (b"\0\0\0\x20\0\x24\0\x02rest", "SASL"),
        ];
        for (bytes, name) in cases {
            assert!(looks_like(bytes).is_some_and(|words| words.contains(name)), "{bytes:?}");
        }
        let others: [&[u8]; 5] =
            [b"", b"\0\0\0\x20\0\x12\0\0", b"\x16", b"GETS", b"\0\0\0\x01\0\x11"];
        assert!(others.iter().all(|bytes| looks_like(bytes).is_none()));
    }
}

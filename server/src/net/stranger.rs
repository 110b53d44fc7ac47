//! Recognises other protocols by the first bytes of a connection.

use muster_codec::ApiKey;
use muster_codec::frame::frame_length;

/// The protocol that a client speaks by mistake, and a remedy; None if it is not recognised.
pub(crate) fn looks_like(input: &[u8]) -> Option<&'static str> {
    match input {
        // A handshake record of any TLS version.
        [0x16, 3, ..] => Some(
            "this looks like TLS, and this listener has none: the client needs \
             security.protocol=PLAINTEXT or SASL_PLAINTEXT, or the port of another listener",
        ),
        _ if HTTP.iter().any(|method| input.starts_with(method.as_bytes())) => {
            Some("this looks like HTTP, and the port is one for Kafka clients")
        }
        _ => None,
    }
}

/// The reason for closing a connection to a TLS listener whose client does not speak TLS. It names
/// the protocol that the bytes look like. If they look like none, it is `reason`.
pub(crate) fn encrypted_expected(input: &[u8], reason: String) -> String {
    let is_frame = frame_length(input, i32::MAX.unsigned_abs()).is_ok();
    let key = input.get(4..6).map(|key| i16::from_be_bytes([key[0], key[1]]));
    match input {
        _ if HTTP.iter().any(|method| input.starts_with(method.as_bytes())) => {
            "this looks like HTTP, and the port is one for Kafka clients with TLS".to_owned()
        }
        _ if is_frame && key.and_then(ApiKey::from_key).is_some() => {
            "this looks like a Kafka client without TLS: it needs security.protocol=SSL or SASL_SSL"
                .to_owned()
        }
        _ => reason,
    }
}

/// The first four characters of HTTP requests. Kafka's protocol has the length of a frame there.
const HTTP: [&str; 9] = ["GET ", "HEAD", "POST", "PUT ", "DELE", "OPTI", "PATC", "CONN", "PRI "];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_recognised() {
        let cases: [(&[u8], &str); 5] = [
            (b"\x16\x03\x01\x02\x00\x01", "TLS"),
            (b"\x16\x03\x03\x00", "TLS"),
            (b"GET / HTTP/1.1\r\n", "HTTP"),
            (b"POST", "HTTP"),
            (b"PRI * HTTP/2.0\r\n", "HTTP"),
        ];
        for (bytes, name) in cases {
            assert!(looks_like(bytes).is_some_and(|words| words.contains(name)), "{bytes:?}");
        }
        let others: [&[u8]; 5] =
            [b"", b"\0\0\0\x20\0\x12\0\0", b"\x16", b"GETS", b"\0\0\0\x01\0\x11"];
        assert!(others.iter().all(|bytes| looks_like(bytes).is_none()));
    }
}

//! Prints distinguished names as Java's `X500Principal.getName()` does: in RFC 2253's format, with
//! its attribute names, and with the last attribute first. Kafka derives principals from them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::Oid;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// The attributes for which RFC 2253 defines names.
const NAMES: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("2.5.4.9", "STREET"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

const ESCAPED: &str = ",=+<>#;\"\\";

/// The names in a certificate: the subject, and the alternative names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Names {
    pub(crate) subject: String,
    pub(crate) alternative: BTreeSet<String>,
}

/// Parses the names in a DER certificate. None if the bytes are not a certificate.
pub(crate) fn names(certificate: &[u8]) -> Option<Names> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.into_iter().flat_map(|it| &it.value.general_names);
    let alternative = names.map(alternative).collect();
    Some(Names { subject: printed(certificate.subject()), alternative })
}

/// Parses the subject of a DER certificate. None if the bytes are not a certificate.
pub(crate) fn subject(certificate: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(printed(certificate.subject()))
}

fn printed(name: &X509Name<'_>) -> String {
    let all: Vec<_> = name.iter_rdn().collect();
    let each = all.iter().rev().map(|rdn| {
        let parts: Vec<_> = rdn.iter().map(attribute).collect();
        parts.join("+")
    });
    each.collect::<Vec<_>>().join(",")
}

fn alternative(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => (*name).to_owned(),
        GeneralName::IPAddress([a, b, c, d]) => Ipv4Addr::new(*a, *b, *c, *d).to_string(),
        GeneralName::DirectoryName(name) => printed(name),
        other => other.to_string(),
    }
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let value = attribute.attr_value();
    match (keyword(attribute.attr_type()), text(value)) {
        (Some(keyword), Some(text)) => format!("{keyword}={}", escaped(&text)),
        (Some(keyword), None) => format!("{keyword}={}", hex(value)),
        (None, _) => format!("{}={}", attribute.attr_type().to_id_string(), hex(value)),
    }
}

fn keyword(oid: &Oid<'_>) -> Option<&'static str> {
    let id = oid.to_id_string();
    NAMES.iter().find(|(known, _)| *known == id).map(|(_, keyword)| *keyword)
}

/// The text of a value that has one of ASN.1's string types.
fn text(value: &Any<'_>) -> Option<String> {
    let bytes = value.data;
    match value.tag() {
        Tag::Utf8String => Some(String::from_utf8_lossy(bytes).into_owned()),
        Tag::PrintableString | Tag::Ia5String => {
            let ascii = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '\u{fffd}' };
            Some(bytes.iter().map(ascii).collect())
        }
        Tag::T61String | Tag::GeneralString => {
            Some(bytes.iter().map(|byte| char::from(*byte)).collect())
        }
        Tag::BmpString => {
            let units = bytes.chunks(2).map(|it| match it {
                [high, low] => u16::from_be_bytes([*high, *low]),
                _ => 0xfffd,
            });
            Some(String::from_utf16_lossy(&units.collect::<Vec<_>>()))
        }
        _ => None,
    }
}

/// The whole value, DER-encoded, in hex.
fn hex(value: &Any<'_>) -> String {
    let der = value_der(value);
    let digits = der.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("#".to_owned()).chain(digits).collect()
}

fn value_der(value: &Any<'_>) -> Vec<u8> {
    x509_parser::asn1_rs::ToDer::to_der_vec(value).unwrap_or_default()
}

fn escaped(text: &str) -> String {
    let is_space = |c: char| c == ' ' || c == '\r';
    let inner = text.trim_matches(is_space);
    // If the text has nothing but spaces, all of them count as leading spaces.
    let lead = text.len() - text.trim_start_matches(is_space).len();
    let (lead, trail) = (&text[..lead], &text[lead + inner.len()..]);
    let mut result = String::new();
    let spaces = |spaces: &str, result: &mut String| {
        spaces.chars().for_each(|c| result.extend(['\\', c]));
    };
    spaces(lead, &mut result);
    for c in inner.chars() {
        match c {
            '\0' => result.push_str("\\00"),
            c => {
                if ESCAPED.contains(c) {
                    result.push('\\');
                }
                result.push(c);
            }
        }
    }
    spaces(trail, &mut result);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_escaped_as_java_does() {
        let cases = [
            ("plain", "plain"),
            ("a,b=c+d<e>f#g;h\"i\\j", "a\\,b\\=c\\+d\\<e\\>f\\#g\\;h\\\"i\\\\j"),
            ("  two ", "\\ \\ two\\ "),
            ("in side", "in side"),
            ("  ", "\\ \\ "),
            ("Grün", "Grün"),
        ];
        for (text, expected) in cases {
            assert_eq!(escaped(text), expected);
        }
    }
}

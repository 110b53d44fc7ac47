//! PEM: sections between `-----BEGIN X-----` and `-----END X-----`. As in Kafka, line breaks may be
//! missing, so that a PEM text fits into one line of a properties file.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;

/// A section: its label and its decoded bytes. They may be a private key.
#[derive(Clone, PartialEq, Eq)]
pub struct Section {
    pub label: String,
    pub der: Vec<u8>,
}

pub const CERTIFICATE: &str = "CERTIFICATE";
pub const ENCRYPTED_KEY: &str = "ENCRYPTED PRIVATE KEY";

impl fmt::Debug for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.label, self.der.len())
    }
}

/// Parses all sections of a text, in order.
///
/// # Errors
/// A section has no end, is encrypted in OpenSSL's old form, or is not base64.
pub fn sections(text: &str) -> Result<Vec<Section>, String> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some((label, body)) = next_label(rest) {
        let end = format!("-----END {label}-----");
        let (body, after) =
            body.split_once(&end).ok_or_else(|| format!("its section {label} has no end"))?;
        if body.contains("Proc-Type:") {
            return Err(format!(
                "its {label} is encrypted in OpenSSL's old form: use PKCS#8 (openssl pkcs8 -topk8)"
            ));
        }
        let digits: String = body.split_whitespace().collect();
        let der = STANDARD.decode(digits).map_err(|_| format!("its {label} is not base64"))?;
        all.push(Section { label: label.to_owned(), der });
        rest = after;
    }
    Ok(all)
}

/// Returns the label of the next section and the text after its BEGIN marker.
fn next_label(text: &str) -> Option<(&str, &str)> {
    let (_, after) = text.split_once("-----BEGIN ")?;
    after.split_once("-----")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_in_any_layout() {
        let text = "Bag Attributes: x\n-----BEGIN A B-----\nAQ\nID\n-----END A B-----\n\
                    -----BEGIN C----- BAU= -----END C-----";
        let found = sections(text).unwrap();
        let expected = [("A B", vec![1, 2, 3]), ("C", vec![4, 5])];
        let expected = expected.map(|(label, der)| Section { label: label.into(), der });
        assert_eq!(found, expected);
        assert_eq!(sections("").unwrap(), []);
    }

    #[test]
    fn unfinished_and_foreign_sections_are_refused() {
        assert!(sections("-----BEGIN A-----\nAQID").unwrap_err().contains("no end"));
        assert!(sections("-----BEGIN A-----\n*\n-----END A-----").unwrap_err().contains("base64"));
        let old = "-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\n\nAQID\n-----END A-----";
        assert!(sections(old).unwrap_err().contains("PKCS#8"));
    }
}

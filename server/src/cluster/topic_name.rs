//! Checks topic names, with the rules and messages of Kafka's `Topic.validate`.

use super::limits::TOPIC_NAME_CHARS_MAX;

/// Names of Kafka's internal topics that muster does not have.
const RESERVED: &[&str] = &["__cluster_metadata"];

/// Whether a name is that of an internal topic that muster does not have.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Checks the name of a topic.
///
/// # Errors
/// The message for INVALID_TOPIC_EXCEPTION.
pub fn check_topic_name(name: &str) -> Result<(), String> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let why = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if matches!(name, "." | "..") {
        format!("'{name}' is not allowed")
    } else if name.encode_utf16().count() > TOPIC_NAME_CHARS_MAX {
        format!(
            "the length of '{name}' is longer than the max allowed length {TOPIC_NAME_CHARS_MAX}"
        )
    } else if !name.chars().all(is_legal) {
        format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' \
             and '-'"
        )
    } else {
        return Ok(());
    };
    Err(format!("Topic name is invalid: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated_as_by_kafka() {
        let long = "a".repeat(250);
        let cases = [
            ("a.b_c-9", Ok(())),
            ("...", Ok(())),
            ("", Err("the empty string is not allowed".to_owned())),
            (".", Err("'.' is not allowed".to_owned())),
            ("..", Err("'..' is not allowed".to_owned())),
            (
                &long,
                Err(format!("the length of '{long}' is longer than the max allowed length 249")),
            ),
            (&long[1..], Ok(())),
        ];
        for (name, expected) in cases {
            let expected = expected.map_err(|why| format!("Topic name is invalid: {why}"));
            assert_eq!(check_topic_name(name), expected);
        }
        for name in ["a b", "a/b", "ü", "a\0"] {
            let why = check_topic_name(name).unwrap_err();
            assert!(why.ends_with("other than ASCII alphanumerics, '.', '_' and '-'"), "{why}");
        }
    }
}

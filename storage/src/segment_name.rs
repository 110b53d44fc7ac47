//! The file names of segments in all logs: a number with twenty digits, as in Kafka.

const SUFFIX: &str = ".log";

/// The file name of a segment.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:020}{SUFFIX}")
}

/// Parses the number in a segment's file name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_in_its_one_form_is_a_segments() {
        let name = file_name(7);
        assert_eq!((&*name, number_of(&name)), ("00000000000000000007.log", Some(7)));
        for other in ["7.log", "0000000000000000007.log", "00000000000000000007.log2", ".log"] {
            assert_eq!(number_of(other), None, "{other}");
        }
        assert_eq!(number_of("-0000000000000000007.log"), None);
    }
}

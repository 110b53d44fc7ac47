//! Member ids as in scripts: `a#1` is the id that client `a` gets with the first random id.

/// The part of a member id before the number.
const ZEROS: &str = "-00000000-0000-0000-0000-";

/// `a#1` as a member id.
pub fn long(text: &str) -> String {
    match text.split_once('#') {
        Some((name, number)) => format!("{name}{ZEROS}{:012x}", number.parse::<u64>().unwrap()),
        None => text.to_owned(),
    }
}

/// A member id as `a#1`.
pub fn short(id: &str) -> String {
    match id.split_once(ZEROS) {
        Some((name, number)) => {
            format!("{name}#{}", u64::from_str_radix(number, 16).unwrap())
        }
        None if id.is_empty() => "-".to_owned(),
        None => id.to_owned(),
    }
}

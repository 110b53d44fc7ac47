//! Member ids in scripts. `a#1` is the member id that client `a` gets with the first random id.

/// The constant part of a member id, between the client id and the number.
const ZEROS: &str = "-00000000-0000-0000-0000-";

/// Converts `a#1` to a member id.
pub fn long(text: &str) -> String {
    match text.split_once('#') {
        Some((name, number)) => format!("{name}{ZEROS}{:012x}", number.parse::<u64>().unwrap()),
        None => text.to_owned(),
    }
}

/// Converts a member id to `a#1`.
pub fn short(id: &str) -> String {
    match id.split_once(ZEROS) {
        Some((name, number)) => {
            format!("{name}#{}", u64::from_str_radix(number, 16).unwrap())
        }
        None if id.is_empty() => "-".to_owned(),
        None => id.to_owned(),
    }
}

//! Random ids that are not random: the n-th is n. Scripts write `a#1` for the member id that client
//! a gets with the first.

use muster_codec::Uuid;
use muster_coordinator::Ids;

#[derive(Default)]
pub struct CountedIds(u128);

impl Ids for CountedIds {
    fn next_id(&mut self) -> Uuid {
        self.0 += 1;
        Uuid(self.0.to_be_bytes())
    }
}

/// What the part of a member id before the number looks like.
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

//! Requests that name several groups: each is answered once, by the shard that has it.

use super::{Front, Screened};
use muster_codec::{Response, Str};
use std::collections::HashSet;

/// A request with a list of groups.
pub(in crate::dispatch) trait GroupList {
    fn is_empty(&self) -> bool;

    /// Names each group once. Kafka answers each repetition, but for groups to be deleted; clients
    /// look answers up by name, so it makes no difference to them.
    fn name_once(&mut self);

    /// Takes out the groups of other shards, and returns the response that refuses them; None if
    /// there are none.
    fn refuse_foreign(&mut self, front: &Front<'_>) -> Option<Response<'static>>;
}

/// Refuses the groups of other shards.
pub(super) fn screen(list: &mut dyn GroupList, front: &Front<'_>) -> Screened {
    match list.refuse_foreign(front) {
        None => Screened::Passed,
        Some(refused) if list.is_empty() => Screened::Refused(refused),
        Some(refused) => Screened::InPart(refused),
    }
}

/// Takes out the elements that are to be refused; None if there are none.
pub(super) fn extract<T>(elements: &mut Vec<T>, refuse: impl Fn(&T) -> bool) -> Option<Vec<T>> {
    if !elements.iter().any(&refuse) {
        return None;
    }
    let (refused, kept) = std::mem::take(elements).into_iter().partition(refuse);
    *elements = kept;
    Some(refused)
}

/// Keeps each name where it comes first.
pub(in crate::dispatch) fn once(names: &mut Vec<Str<'_>>) {
    if names.len() > 1 {
        let mut seen = HashSet::with_capacity(names.len());
        names.retain(|name| seen.insert(name.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_where_it_comes_first() {
        let mut names = ["b", "a", "b", "c", "a"].map(Str::Borrowed).to_vec();
        once(&mut names);
        assert_eq!(names, ["b", "a", "c"]);
    }
}

//! Requests that name several groups. Each group is answered once, by the shard that owns it.

use super::{Destination, GroupApi, ScreenContext, merge};
use crate::dispatch::authorization::{By, Verdict, take_denied};
use crate::dispatch::serving::LOADING;
use crate::placement::Slot;
use crate::security::acls::Operation;
use muster_codec::{ErrorCode, Response, Str};
use std::cell::Cell;
use std::collections::HashSet;

/// A request that lists groups.
pub(in crate::dispatch) trait GroupList {
    fn is_empty(&self) -> bool;

    /// Removes repeated groups. Kafka answers every repetition (but not in DeleteGroups). Clients
    /// look up the answer of each group by its name, so they notice no difference.
    fn name_once(&mut self);

    /// Whether a group fulfils a condition.
    fn any(&self, is: &dyn Fn(&str) -> bool) -> bool;

    /// Removes some groups, and returns the response that refuses them with an error; None if there
    /// are none.
    fn refuse(
        &mut self,
        which: &dyn Fn(&str) -> bool,
        version: i16,
        error: ErrorCode,
    ) -> Option<Response<'static>>;
}

/// A request that can be split into several requests, in the order of its list of groups. Each of
/// them has consecutive groups of one slot.
pub(super) trait BySlot: Sized {
    fn by_slot(self, slot_of: &dyn Fn(&str) -> Slot) -> Vec<(Slot, Self)>;
}

/// Removes and refuses the groups without a coordinator that may answer here. Returns None if the
/// request names no group.
pub(super) fn screen(list: &mut dyn GroupList, context: &ScreenContext<'_>) -> Option<Destination> {
    let (version, slot_of) = (context.version, context.slot_of);
    let is_loading = Cell::new(false);
    let is_foreign = |group: &str| match slot_of(group) {
        Ok(_) => false,
        Err(error) => {
            let loads = error == LOADING;
            is_loading.set(is_loading.get() || loads);
            !loads
        }
    };
    let mut refused = list.refuse(&is_foreign, version, ErrorCode::NotCoordinator);
    if is_loading.get() {
        let loading = list.refuse(&|group| slot_of(group).is_err(), version, LOADING);
        match (&mut refused, loading) {
            (Some(refused), Some(loading)) => merge(refused, loading),
            (refused, loading) => *refused = loading,
        }
    }
    match refused {
        Some(refused) if list.is_empty() => Some(Destination::Answered(refused)),
        None if list.is_empty() => None,
        refused => Some(Destination::Slots(refused)),
    }
}

/// Removes and refuses the groups on which the client may not perform an operation. `of` makes a
/// request of the removed groups.
pub(super) fn take_denied_groups<'r, A: GroupApi>(
    groups: &mut Vec<Str<'r>>,
    operation: Operation,
    by: &By<'_>,
    of: impl FnOnce(Vec<Str<'r>>) -> A,
) -> Verdict {
    let denied = take_denied(groups, |group| by.group(operation, group).is_ok());
    let refuse = |denied| of(denied).refused(by.version, ErrorCode::GroupAuthorizationFailed);
    Verdict::of_parts(denied.map(refuse), groups.is_empty())
}

/// Splits a list into runs of elements with the same slot.
pub(super) fn runs<T>(
    elements: Vec<T>,
    slot_of: impl Fn(&T) -> Slot,
) -> impl Iterator<Item = (Slot, Vec<T>)> {
    let mut rest = elements.into_iter().map(move |it| (slot_of(&it), it)).peekable();
    std::iter::from_fn(move || {
        let (slot, first) = rest.next()?;
        let mut run = vec![first];
        while let Some((_, next)) = rest.next_if(|(of, _)| *of == slot) {
            run.push(next);
        }
        Some((slot, run))
    })
}

/// Removes repetitions; the first occurrence of each name stays.
pub(in crate::dispatch) fn once(names: &mut Vec<Str<'_>>) {
    once_by(names, Str::clone);
}

/// Removes elements with the same name; the first one stays.
pub(super) fn once_by<'r, T>(elements: &mut Vec<T>, name: impl Fn(&T) -> Str<'r>) {
    if elements.len() > 1 {
        let mut seen = HashSet::with_capacity(elements.len());
        elements.retain(|element| seen.insert(name(element)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_where_the_slot_changes() {
        let split = |list: &[u32]| runs(list.to_vec(), |it| Slot(it / 10)).collect::<Vec<_>>();
        let expected = [(0, vec![1, 2]), (3, vec![31]), (0, vec![3])];
        assert_eq!(split(&[1, 2, 31, 3]), expected.map(|(slot, run)| (Slot(slot), run)));
        assert_eq!(split(&[]), []);
    }

    #[test]
    fn a_name_stays_where_it_comes_first() {
        let mut names = ["b", "a", "b", "c", "a"].map(Str::Borrowed).to_vec();
        once(&mut names);
        assert_eq!(names, ["b", "a", "c"]);
    }
}

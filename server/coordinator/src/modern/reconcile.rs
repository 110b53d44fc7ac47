//! Reconciles a member with its target, step by step (`CurrentAssignmentBuilder` in Kafka).
//!
//! A partition is assigned only when it is free ([`Kind::is_free`]). It counts as revoked only when
//! the member no longer reports it. The member reaches the target's epoch when it has nothing left
//! to revoke. If the members of a kind report nothing and all partitions are free, one step leads
//! to the target.

use super::Group;
use super::kind::{Kind, Report};
use super::member::{Current, CurrentOf, MemberOf, MemberState};
use super::owned::{KeyPartitions, Owned, OwnedPartition, owned};
use super::target::MemberTarget;
use crate::turn::Turn;
use alloc::vec::Vec;

/// This version does not know the member's state. The member must join again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnknownState;

/// The inputs of a step.
pub(super) struct Reconciliation<'a, 't, 'r, K: Kind> {
    pub(super) group: &'a Group<K>,
    pub(super) turn: &'a Turn<'t, 'r>,
    pub(super) member: &'a MemberOf<K>,
    pub(super) target: &'a MemberTarget<K>,
    pub(super) subscription_changed: bool,
    /// The partitions that the member reports as its own. None if the heartbeat has no report.
    pub(super) reported: Option<&'a K::Reported>,
}

impl<K: Kind> Reconciliation<'_, '_, '_, K> {
    /// The assignment after the step; None if it does not change.
    ///
    /// # Errors
    /// The state of the member is unknown, and the member may still own partitions.
    pub(super) fn step(&self) -> Result<Option<CurrentOf<K>>, UnknownState> {
        let current = &self.member.current;
        if !K::REVOKES {
            return Ok(Some(self.at_once()).filter(|next| next != current));
        }
        let next = match current.state {
            MemberState::Stable if current.epoch != self.target.epoch => {
                Some(self.next(current.epoch))
            }
            MemberState::Stable => self.narrowed(),
            MemberState::UnrevokedPartitions if self.owns_any_of(&current.revoking) => {
                self.narrowed()
            }
            MemberState::UnrevokedPartitions => {
                Some(self.next(K::epoch_after_revocation(current.epoch)))
            }
            MemberState::UnreleasedPartitions => Some(self.next(current.epoch)),
            MemberState::Unknown if self.reported.is_none_or(|owned| !owned.is_empty()) => {
                return Err(UnknownState);
            }
            MemberState::Unknown => Some(self.next(self.target.epoch)),
        };
        Ok(next.filter(|next| next != current))
    }

    /// The whole target as the assignment. As in Kafka, the epochs change only if the target is
    /// new.
    fn at_once(&self) -> CurrentOf<K> {
        let current = &self.member.current;
        let is_new = current.epoch != self.target.epoch;
        let wanted = self.target.part.iter().filter(|of_key| self.is_subscribed(&of_key.key));
        let assigned = Owned::since(&wanted.cloned().collect(), 0);
        let step = Current { state: MemberState::Stable, assigned, ..current.clone() };
        let (epoch, previous_epoch) = (self.target.epoch, current.epoch);
        if is_new { Current { epoch, previous_epoch, ..step } } else { step }
    }

    /// Whether the member may still own any of `partitions`.
    fn owns_any_of(&self, partitions: &Owned<K::Key>) -> bool {
        self.reported.is_none_or(|reported| reported.has_any_of(partitions))
    }

    fn is_subscribed(&self, key: &K::Key) -> bool {
        K::is_subscribed(self.group, self.turn, &self.member.profile, key)
    }

    /// Revokes the keys to which the member no longer subscribes. The member epoch stays.
    fn narrowed(&self) -> Option<CurrentOf<K>> {
        if !self.subscription_changed {
            return None;
        }
        let current = &self.member.current;
        let is_subscriber = K::is_subscriber(self.group, &self.member.profile);
        // In Kafka, a member without a subscription gets a new assignment even if it had no
        // partitions. Only a member without a record of its assignment does not.
        let is_recorded = *current != Current::default();
        let gives_all_up = !is_subscriber && current.revoking.is_empty() && is_recorded;
        let (assigned, gone) = if gives_all_up {
            (Owned::default(), current.assigned.clone())
        } else {
            current.assigned.clone().partition(|key| self.is_subscribed(key))
        };
        if gone.is_empty() && !gives_all_up {
            return None;
        }
        let revoking = gone.union(current.revoking.clone());
        let step = Current { assigned, previous_epoch: current.epoch, ..current.clone() };
        if !revoking.is_empty() && self.owns_any_of(&revoking) {
            return Some(Current { state: MemberState::UnrevokedPartitions, revoking, ..step });
        }
        // The member no longer reports the revoked partitions.
        Some(step)
    }

    /// The step of a member with the member epoch `epoch` towards its target.
    fn next(&self, epoch: i32) -> CurrentOf<K> {
        let mut split = self.split();
        let (assigned, target) = (&self.member.current.assigned, &self.target.part);
        K::change_roles(assigned, target, &mut split, |gone| self.owns_any_of(gone));
        let step = Current { previous_epoch: self.member.current.epoch, ..Current::default() };
        if !split.revoking.is_empty() && self.owns_any_of(&split.revoking) {
            let (assigned, revoking) = (split.kept, split.revoking);
            let state = MemberState::UnrevokedPartitions;
            return Current { epoch, state, assigned, revoking, ..step };
        }
        let state = if split.has_unreleased {
            MemberState::UnreleasedPartitions
        } else {
            MemberState::Stable
        };
        let assigned = split.kept.union(split.free);
        Current { epoch: self.target.epoch, state, assigned, ..step }
    }

    fn split(&self) -> Split<K> {
        let is_wanted = |of_key: &&KeyPartitions<K::Key, i32>| self.is_subscribed(&of_key.key);
        let target: Vec<_> = self.target.part.iter().filter(is_wanted).collect();
        let in_target = |key: &K::Key, partition: i32| {
            let found = target.binary_search_by(|of_key| of_key.key.cmp(key));
            found.is_ok_and(|at| target[at].partitions.binary_search(&partition).is_ok())
        };
        let (mut kept, mut revoking) = (Vec::new(), Vec::new());
        for KeyPartitions { key, partitions } in self.member.current.assigned.by_key() {
            let all = partitions.iter().copied();
            let (stays, goes): (Vec<_>, Vec<_>) = all.partition(|it| in_target(key, it.partition));
            kept.push(KeyPartitions { key: key.clone(), partitions: stays });
            revoking.push(KeyPartitions { key: key.clone(), partitions: goes });
        }
        let mut has_unreleased = false;
        let free = target.iter().map(|of_key| {
            let free = self.free(of_key, &mut has_unreleased);
            KeyPartitions { key: of_key.key.clone(), partitions: free }
        });
        let free = Owned::new(free.collect());
        Split { kept: Owned::new(kept), revoking: Owned::new(revoking), free, has_unreleased }
    }

    /// Those partitions of a key that are free and that the member does not own yet.
    fn free(
        &self,
        KeyPartitions { key, partitions }: &KeyPartitions<K::Key, i32>,
        has_unreleased: &mut bool,
    ) -> Vec<OwnedPartition> {
        let assigned = &self.member.current.assigned;
        let mut free = Vec::new();
        for partition in partitions.iter().filter(|it| !assigned.contains(key, **it)) {
            if K::is_free(self.group, self.member, key, *partition) {
                free.push(owned(*partition, self.target.epoch));
            } else {
                *has_unreleased = true;
            }
        }
        free
    }
}

/// A member's partitions, compared with its target.
pub(crate) struct Split<K: Kind> {
    pub(crate) kept: Owned<K::Key>,
    pub(crate) revoking: Owned<K::Key>,
    pub(crate) free: Owned<K::Key>,
    has_unreleased: bool,
}

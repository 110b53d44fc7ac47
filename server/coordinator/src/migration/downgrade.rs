//! Converts a consumer group to a classic group when the last member that uses the consumer
//! protocol leaves.

use super::protocol_metadata;
use crate::classic::{ClassicGroup, Identity, MigratedMember, Protocol};
use crate::config::Config;
use crate::consumer::ConsumerGroup;
use crate::consumer::member::Member;
use crate::group::{Entry, Group};
use crate::limits::GROUP_MEMBERS_MAX;
use crate::modern::Draft;
use crate::text::{Blob, Text};
use crate::turn::Turn;
use alloc::boxed::Box;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// A classic member that replaces a static member of the consumer protocol.
pub(super) struct Newcomer<'m> {
    pub(super) id: &'m str,
    pub(super) member: &'m Member,
    /// The slot of the replaced member.
    pub(super) replaces: u32,
}

/// Removes members of a consumer group. If only classic members are left, converts the group.
pub(crate) fn fence(
    turn: &mut Turn<'_, '_>,
    draft: &mut Draft<'_>,
    entry: &mut Entry,
    going: &[u32],
) {
    let Some(Group::Consumer(group)) = &mut entry.group else { return };
    if going.is_empty() {
        return;
    }
    let left = group.len() - going.len();
    if left > 0
        && group.is_classic_without(going)
        && is_allowed(turn.config, left)
        && let Some(mut classic) = convert(turn, draft, &entry.id, group, going, None)
    {
        classic.rebalance(turn);
        entry.successor = Some(Box::new(Group::Classic(classic)));
        return;
    }
    group.fence(turn, draft, going);
}

/// Whether a group with this number of members may become classic.
pub(super) fn is_allowed(config: &Config, members: usize) -> bool {
    let max = usize::try_from(config.group_max_size).unwrap_or(0).min(GROUP_MEMBERS_MAX);
    config.group_consumer_migration_policy.allows_downgrade() && members <= max
}

/// Makes a classic group of the members that stay, with their target assignments, and adds its
/// records to `draft`. Returns None and adds nothing if the members have no protocol in common, if
/// two members have the same id, or if the record of the classic group would be too large.
pub(super) fn convert(
    turn: &mut Turn<'_, '_>,
    draft: &mut Draft<'_>,
    id: &Text,
    group: &ConsumerGroup,
    going: &[u32],
    newcomer: Option<&Newcomer<'_>>,
) -> Option<ClassicGroup> {
    let replaced = newcomer.map(|it| it.replaces);
    let gone: Vec<u32> = going.iter().copied().chain(replaced).collect();
    let mut slots: HashMap<Text, u32> = HashMap::new();
    let mut members = Vec::new();
    for (number, member_id, member) in group.members_without(&gone) {
        slots.insert(member_id.clone(), number);
        members.push(migrated_member(member_id.clone(), member)?);
    }
    if let Some(newcomer) = newcomer {
        let member_id = Text::from(newcomer.id);
        if slots.contains_key(&member_id) {
            return None;
        }
        slots.insert(member_id.clone(), newcomer.replaces);
        members.push(migrated_member(member_id, newcomer.member)?);
    }
    let topics = turn.topics;
    let mut classic =
        ClassicGroup::of_consumers(turn, id.clone(), group.epoch(), members, |it, metadata| {
            let target = slots.get(it).map(|number| group.target_of(*number)).unwrap_or_default();
            Blob::from(protocol_metadata::assignment(topics, &target, metadata))
        })?;
    let Some(record) = classic.migrated_record(turn.wall) else {
        classic.removed(turn.timers);
        return None;
    };
    let replaced_id = replaced.and_then(|number| group.member_id(number));
    group.tombstones(draft, |member_id| match newcomer {
        Some(newcomer) if Some(member_id) == replaced_id => newcomer.id,
        _ => member_id,
    });
    draft.push(record);
    Some(classic)
}

fn migrated_member(member_id: Text, member: &Member) -> Option<MigratedMember> {
    let profile = &member.profile;
    let classic = profile.classic.as_ref()?;
    let identity = Identity {
        member_id,
        instance_id: profile.instance_id.clone(),
        client_id: profile.client_id.clone(),
        client_host: profile.client_host.clone(),
        rebalance_timeout_ms: profile.rebalance_timeout_ms,
        session_timeout_ms: classic.session_timeout_ms,
    };
    let protocols = classic.protocols.iter();
    let protocols =
        protocols.map(|(name, data)| Protocol { name: name.clone(), metadata: data.clone() });
    let assignment = Blob::from([]);
    Some(MigratedMember { identity, protocols: protocols.collect(), assignment })
}

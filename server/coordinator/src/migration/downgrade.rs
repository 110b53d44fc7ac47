//! From a consumer group to a classic group: when the last member of the consumer protocol goes.

use super::embedded;
use crate::classic::{ClassicGroup, Identity, MovedMember, Protocol};
use crate::config::Config;
use crate::consumer::member::Member;
use crate::consumer::{ConsumerGroup, Draft};
use crate::group::{Entry, Group};
use crate::limits::GROUP_MEMBERS_MAX;
use crate::text::{Blob, Text};
use crate::turn::Turn;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// A classic member that takes the place of a static member of the consumer protocol.
pub(super) struct Newcomer<'m> {
    pub(super) id: &'m str,
    pub(super) member: &'m Member,
    /// The seat of the member whose place it takes.
    pub(super) replaces: u32,
}

/// Removes members of a consumer group. If only classic ones are left, the group becomes classic.
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
        entry.successor = Some(Group::Classic(classic));
        return;
    }
    group.fence(turn, draft, going);
}

/// Whether a group of so many members may become classic.
pub(super) fn is_allowed(config: &Config, members: usize) -> bool {
    let max = usize::try_from(config.group_max_size).unwrap_or(0).min(GROUP_MEMBERS_MAX);
    config.group_consumer_migration_policy.allows_downgrade() && members <= max
}

/// The classic group of those who stay, with their target assignments, and the records that make
/// it. None, and no records, if they agree on no protocol or two have one id.
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
    let mut seats: HashMap<Text, u32> = HashMap::new();
    let mut members = Vec::new();
    for (number, member_id, member) in group.members_without(&gone) {
        seats.insert(member_id.clone(), number);
        members.push(emigrant(member_id.clone(), member)?);
    }
    if let Some(newcomer) = newcomer {
        let member_id = Text::from(newcomer.id);
        if seats.contains_key(&member_id) {
            return None;
        }
        seats.insert(member_id.clone(), newcomer.replaces);
        members.push(emigrant(member_id, newcomer.member)?);
    }
    let topics = turn.topics;
    let mut classic =
        ClassicGroup::of_consumers(turn, id.clone(), group.epoch(), members, |it, metadata| {
            let target = seats.get(it).map(|number| group.target_of(*number)).unwrap_or_default();
            Blob::from(embedded::assignment(topics, &target, metadata))
        })?;
    let replaced_id = replaced.and_then(|number| group.member_id(number));
    group.tombstones(draft, |member_id| match newcomer {
        Some(newcomer) if Some(member_id) == replaced_id => newcomer.id,
        _ => member_id,
    });
    draft.push(classic.moved_record(turn.wall));
    Some(classic)
}

fn emigrant(member_id: Text, member: &Member) -> Option<MovedMember> {
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
    Some(MovedMember { identity, protocols: protocols.collect(), assignment })
}

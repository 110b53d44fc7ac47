//! The members of a classic group, and counts over them: requests need no pass over all members.

use super::member::{Member, Protocol};
use super::parked::Parked;
use crate::java_order::Buckets;
use crate::text::Text;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use hashbrown::HashMap;
use muster_codec::ErrorCode;
use muster_codec::messages::JoinGroupRequestProtocol;

#[derive(Debug, Default)]
pub(crate) struct Members {
    members: HashMap<Text, Member>,
    /// The member ids in Kafka's order of iteration: by bucket of the hash table, then by the
    /// sequence number of the insertion.
    order: BTreeMap<(usize, u64), Text>,
    buckets: Buckets,
    inserted: u64,
    member_ids_by_instance_id: HashMap<Text, Text>,
    /// Number of members that offer each protocol.
    offered: BTreeMap<Text, usize>,
    member_bytes: usize,
    parked_joins: usize,
    leader: Option<Text>,
}

impl Members {
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn get(&self, member_id: &str) -> Option<&Member> {
        self.members.get(member_id)
    }

    /// The member that sent a request.
    ///
    /// # Errors
    /// FENCED_INSTANCE_ID if another member has the instance id. UNKNOWN_MEMBER_ID if no member has
    /// the instance id or the member id.
    pub(crate) fn validated(
        &mut self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<&mut Member, ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.member_ids_by_instance_id.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if **current != *member_id => {
                    return Err(ErrorCode::FencedInstanceId);
                }
                Some(_) => {}
            }
        }
        self.members.get_mut(member_id).ok_or(ErrorCode::UnknownMemberId)
    }

    /// A member. The caller must not change its parked join, its protocols or its texts, because
    /// the counts depend on them.
    pub(crate) fn get_mut(&mut self, member_id: &str) -> Option<&mut Member> {
        self.members.get_mut(member_id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Member> {
        self.order.values().filter_map(|member_id| self.members.get(member_id))
    }

    pub(crate) fn ids(&self) -> Vec<Text> {
        self.order.values().cloned().collect()
    }

    /// Changes all members, with the restrictions of [`Self::get_mut`].
    pub(crate) fn for_each(&mut self, mut change: impl FnMut(&mut Member)) {
        for member_id in self.order.values() {
            if let Some(member) = self.members.get_mut(member_id) {
                change(member);
            }
        }
    }

    /// The dynamic members that have not joined in this join phase.
    pub(crate) fn late_dynamic_members(&self) -> Vec<Text> {
        if self.parked_joins == self.members.len() {
            return Vec::new();
        }
        let is_late = |it: &&Member| it.parked_join.is_none() && it.identity.instance_id.is_none();
        self.iter().filter(is_late).map(|it| it.identity.member_id.clone()).collect()
    }

    /// Keeps the leader if it has joined, else elects the first member that has joined. Returns
    /// false if no member has joined.
    pub(crate) fn elect_leader(&mut self) -> bool {
        let has_joined = |it: &&Member| it.parked_join.is_some();
        if self.leader.as_ref().and_then(|it| self.get(it)).as_ref().is_some_and(has_joined) {
            return true;
        }
        let Some(elected) = self.iter().find(has_joined) else { return false };
        self.leader = Some(elected.identity.member_id.clone());
        true
    }

    pub(crate) fn leader(&self) -> Option<&Text> {
        self.leader.as_ref()
    }

    pub(crate) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    pub(crate) fn set_leader(&mut self, leader: Option<Text>) {
        self.leader = leader;
    }

    /// The member id for an instance id.
    pub(crate) fn static_member_id(&self, instance_id: &str) -> Option<&Text> {
        self.member_ids_by_instance_id.get(instance_id)
    }

    /// Bytes of the members' texts and protocols.
    pub(crate) fn member_bytes(&self) -> usize {
        self.member_bytes
    }

    /// Number of members whose JoinGroup is parked.
    pub(crate) fn parked_joins(&self) -> usize {
        self.parked_joins
    }

    /// Adds a member. The first member becomes the leader.
    pub(crate) fn insert(&mut self, mut member: Member) {
        let member_id = member.identity.member_id.clone();
        debug_assert!(!self.members.contains_key(&member_id));
        if let Some(instance_id) = &member.identity.instance_id {
            self.member_ids_by_instance_id.insert(instance_id.clone(), member_id.clone());
        }
        self.leader.get_or_insert_with(|| member_id.clone());
        self.member_bytes += member.bytes();
        self.count_protocols(&member.protocols, true);
        self.parked_joins += usize::from(member.parked_join.is_some());
        self.inserted += 1;
        member.inserted = self.inserted;
        self.members.insert(member_id.clone(), member);
        self.enter_order(member_id);
    }

    /// Removes a member. If it was the leader, the first remaining member becomes the leader.
    pub(crate) fn remove(&mut self, member_id: &str) -> Option<Member> {
        let member = self.members.remove(member_id)?;
        self.order.remove(&(self.buckets.of(member_id), member.inserted));
        self.member_bytes -= member.bytes();
        self.count_protocols(&member.protocols, false);
        self.parked_joins -= usize::from(member.parked_join.is_some());
        if let Some(instance_id) = &member.identity.instance_id {
            self.member_ids_by_instance_id.remove(instance_id);
        }
        if self.is_leader(member_id) {
            self.leader = self.order.first_key_value().map(|(_, first)| first.clone());
        }
        Some(member)
    }

    /// Changes the member id of a static member. A leader stays the leader.
    pub(crate) fn rename(&mut self, old_id: &str, new_id: Text) {
        let was_leader = self.is_leader(old_id);
        let Some(mut member) = self.remove(old_id) else { return };
        member.identity.member_id = new_id.clone();
        self.insert(member);
        if was_leader {
            self.leader = Some(new_id);
        }
    }

    /// Notes the connection of a member's request.
    pub(crate) fn heard(&mut self, member_id: &str, connection: Option<u64>) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.heard_on = connection;
        }
    }

    /// Parks a JoinGroup. Returns the JoinGroup of the member that was parked before.
    pub(crate) fn park_join(&mut self, member_id: &str, parked: Parked) -> Option<Parked> {
        let member = self.members.get_mut(member_id)?;
        member.heard_on = Some(parked.request.connection);
        let before = member.parked_join.replace(parked);
        self.parked_joins += usize::from(before.is_none());
        before
    }

    pub(crate) fn take_parked_join(&mut self, member_id: &str) -> Option<Parked> {
        let parked = self.members.get_mut(member_id)?.parked_join.take()?;
        self.parked_joins -= 1;
        Some(parked)
    }

    pub(crate) fn set_protocols(&mut self, member_id: &str, protocols: Vec<Protocol>) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        self.member_bytes -= member.bytes();
        let before = core::mem::replace(&mut member.protocols, protocols.clone());
        self.member_bytes += member.bytes();
        self.count_protocols(&before, false);
        self.count_protocols(&protocols, true);
    }

    /// Whether all members offer at least one of `protocols`. True if there are no members.
    pub(crate) fn all_offer_one_of(&self, protocols: &[JoinGroupRequestProtocol<'_>]) -> bool {
        protocols.iter().any(|protocol| {
            self.offered.get(&*protocol.name).copied().unwrap_or(0) == self.members.len()
        })
    }

    /// Elects a protocol: each member votes for the first of its protocols that all members offer.
    /// None if there is no such protocol, which [`Self::all_offer_one_of`] rules out.
    pub(crate) fn vote(&self) -> Option<Text> {
        let is_candidate = |protocol: &&Protocol| {
            self.offered.get(&protocol.name).is_some_and(|count| *count == self.members.len())
        };
        let mut votes: BTreeMap<&Text, usize> = BTreeMap::new();
        for member in self.iter() {
            let choice = member.protocols.iter().find(is_candidate)?;
            *votes.entry(&choice.name).or_default() += 1;
        }
        let mut buckets = Buckets::default();
        buckets.grow_to_hold(votes.len());
        let winner = votes
            .into_iter()
            .min_by_key(|(name, votes)| (core::cmp::Reverse(*votes), buckets.of(name)));
        winner.map(|(name, _)| name.clone())
    }

    /// The longest rebalance timeout of the members; 0 without members.
    pub(crate) fn rebalance_timeout_ms(&self) -> i64 {
        let longest = self.iter().map(|member| member.identity.rebalance_timeout_ms).max();
        i64::from(longest.unwrap_or(0).max(0))
    }

    /// A protocol counts once for each member, even if the member names it twice.
    fn count_protocols(&mut self, protocols: &[Protocol], add: bool) {
        for (index, protocol) in protocols.iter().enumerate() {
            if protocols[..index].iter().any(|before| before.name == protocol.name) {
                continue;
            }
            let count = self.offered.entry(protocol.name.clone()).or_default();
            *count = if add { *count + 1 } else { *count - 1 };
            if *count == 0 {
                self.offered.remove(&protocol.name);
            }
        }
    }

    fn enter_order(&mut self, member_id: Text) {
        let before = self.buckets;
        self.buckets.grow_to_hold(self.members.len());
        if self.buckets != before {
            let buckets = self.buckets;
            let order = core::mem::take(&mut self.order);
            let rehashed = order.into_iter().map(|((_, at), id)| ((buckets.of(&id), at), id));
            self.order = rehashed.collect();
        }
        self.order.insert((self.buckets.of(&member_id), self.inserted), member_id);
    }
}

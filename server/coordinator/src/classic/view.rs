//! The members of a classic group as an operator sees them.

use super::ClassicGroup;
use super::member::Member;
use crate::text::Text;
use crate::view::{Assigned, AssignedTo, MemberView, MembersPage};
use alloc::vec::Vec;
use muster_codec::consumer_protocol::ConsumerProtocolAssignment;

/// The most bytes of an assignment that is decoded for an operator: some 16,000 partitions.
const ASSIGNMENT_BYTES_MAX: usize = 64 << 10;

impl ClassicGroup {
    /// Adds the members from an index on. `now` is the current time.
    pub(crate) fn view_members(&self, from: usize, now: i64, page: &mut MembersPage) {
        for (place, member) in self.members.iter().enumerate().skip(from) {
            if page.is_full(place) {
                return;
            }
            page.add(self.view_member(member, now));
        }
    }

    fn view_member(&self, member: &Member, now: i64) -> MemberView {
        let identity = &member.identity;
        MemberView {
            id: identity.member_id.clone(),
            instance_id: identity.instance_id.clone(),
            client_id: identity.client_id.clone(),
            client_host: identity.client_host.clone(),
            epoch: None,
            state: state(member),
            silent_ms: now.saturating_sub(member.heard_at).max(0),
            topics: Vec::new(),
            expression: None,
            assigned: self.is_of_consumers().then(|| assigned(&member.assignment)).flatten(),
            target: None,
        }
    }
}

fn state(member: &Member) -> &'static str {
    match (&member.parked_join, &member.parked_sync) {
        (Some(_), _) => "Joining",
        (None, Some(_)) => "Syncing",
        (None, None) => "Stable",
    }
}

/// The partitions of an assignment. None if the assignment is too long or malformed. An assignment
/// without bytes is valid: it has no partitions.
fn assigned(bytes: &[u8]) -> Option<Assigned> {
    let mut assigned = Assigned::default();
    if bytes.is_empty() {
        return Some(assigned);
    }
    let short = Some(bytes).filter(|bytes| bytes.len() <= ASSIGNMENT_BYTES_MAX)?;
    let read = ConsumerProtocolAssignment::read(short).ok()?;
    for topic in read.assigned_partitions {
        assigned.add(AssignedTo::Topic(Text::from(&*topic.topic)), topic.partitions.into_iter());
    }
    Some(assigned)
}

//! What DescribeGroups says of a classic group: protocol and metadata only while they are settled.

use super::ClassicGroup;
use super::member::Member;
use super::state::State;
use crate::text::{owned, owned_bytes};
use muster_codec::Str;
use muster_codec::messages::{DescribedGroup, DescribedGroupMember};

/// What a member takes in a description besides its metadata and assignment, roughly.
const MEMBER_BYTES: usize = 256;

impl ClassicGroup {
    /// How large [`Self::describe`] is, roughly.
    pub(crate) fn described_bytes(&self) -> usize {
        let assigned: usize = self.roster.iter().map(|it| it.assignment.len()).sum();
        self.roster.protocols_bytes() + assigned + self.roster.len() * MEMBER_BYTES
    }

    pub(crate) fn describe<'r>(&self, group_id: Str<'r>) -> DescribedGroup<'r> {
        let protocol = self.protocol.as_deref().filter(|_| self.state == State::Stable);
        DescribedGroup {
            group_id,
            group_state: Str::Borrowed(self.state.name()),
            protocol_type: owned(self.protocol_type()),
            protocol_data: owned(protocol.unwrap_or_default()),
            members: self.roster.iter().map(|member| describe_member(member, protocol)).collect(),
            ..Default::default()
        }
    }
}

fn describe_member(member: &Member, protocol: Option<&str>) -> DescribedGroupMember<'static> {
    let identity = &member.identity;
    let metadata = protocol.and_then(|protocol| member.metadata(protocol));
    DescribedGroupMember {
        member_id: owned(&identity.member_id),
        group_instance_id: identity.instance_id.as_deref().map(owned),
        client_id: owned(&identity.client_id),
        client_host: owned(&identity.client_host),
        member_metadata: metadata.map(|it| owned_bytes(it)).unwrap_or_default(),
        member_assignment: owned_bytes(&member.assignment),
    }
}

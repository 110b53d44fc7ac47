//! DescribeGroups for a classic group. Protocol and metadata are shown only while it is Stable.

use super::ClassicGroup;
use super::member::Member;
use super::state::State;
use crate::text::{owned, owned_bytes};
use muster_codec::messages::{DescribedGroup, DescribedGroupMember};
use muster_codec::{AnswerBudget, Str};

impl ClassicGroup {
    /// The description; None if it does not fit into `budget`.
    pub(crate) fn describe<'r>(
        &self,
        group_id: Str<'r>,
        mut budget: AnswerBudget,
    ) -> Option<DescribedGroup<'r>> {
        let protocol = self.protocol.as_deref().filter(|_| self.state == State::Stable);
        let members =
            self.members.iter().map(|member| budget.fit(describe_member(member, protocol)));
        Some(DescribedGroup {
            group_id,
            group_state: Str::Borrowed(self.state.name()),
            protocol_type: owned(self.protocol_type()),
            protocol_data: owned(protocol.unwrap_or_default()),
            members: members.collect::<Option<_>>()?,
            ..Default::default()
        })
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

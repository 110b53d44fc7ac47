//! DescribeShareGroupOffsets.

use super::list::{BySlot, GroupList, extract, once_by, runs};
use super::{CoordinatorAnswer, GroupApi, NamedGroups, ScreenContext, owned};
use crate::placement::Slot;
use muster_codec::messages::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
};
use muster_codec::{ErrorCode, Response};

impl GroupApi for DescribeShareGroupOffsetsRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::Each(self)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        let groups = self.groups.iter().map(|group| DescribeShareGroupOffsetsResponseGroup {
            group_id: owned(&group.group_id),
            error_code: error.code(),
            ..Default::default()
        });
        DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() }.into()
    }
}

impl GroupList for DescribeShareGroupOffsetsRequest<'_> {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn name_once(&mut self) {
        once_by(&mut self.groups, |group| group.group_id.clone());
    }

    fn refuse_foreign(&mut self, context: &ScreenContext<'_>) -> Option<Response<'static>> {
        let groups = extract(&mut self.groups, |group| context.is_foreign(&group.group_id))?;
        Some(Self { groups }.refused(context.version, ErrorCode::NotCoordinator))
    }
}

impl BySlot for DescribeShareGroupOffsetsRequest<'_> {
    fn by_slot(self, slot_of: &dyn Fn(&str) -> Slot) -> Vec<(Slot, Self)> {
        let runs = runs(self.groups, |it| slot_of(&it.group_id));
        runs.map(|(slot, groups)| (slot, Self { groups })).collect()
    }
}

impl CoordinatorAnswer for DescribeShareGroupOffsetsResponse<'_> {
    fn merge(&mut self, refused: Self) {
        self.groups.extend(refused.groups);
    }

    /// A description writes nothing.
    fn fail(&mut self, _error: ErrorCode) {}
}

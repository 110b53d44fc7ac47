//! AlterShareGroupOffsets.

use super::{CoordinatorAnswer, GroupApi, NamedGroups, without_group};
use crate::dispatch::authorization::{By, Verdict, take_refused};
use crate::security::acls::Operation::Read;
use muster_codec::messages::{AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse};
use muster_codec::{ErrorCode, Response};

impl GroupApi for AlterShareGroupOffsetsRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        let is_unnamed = error == ErrorCode::InvalidGroupId;
        AlterShareGroupOffsetsResponse {
            error_code: error.code(),
            error_message: is_unnamed.then(|| "The group id is empty.".into()),
            ..Default::default()
        }
        .into()
    }

    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        let whole =
            Verdict::whole(by.group(Read, &self.group_id), |error| self.refused(by.version, error));
        whole.then(|| {
            let denied = take_refused(&mut self.topics, |it| by.topic(Read, &it.topic_name));
            let Some(responses) = denied else { return Verdict::Passed };
            let refused = AlterShareGroupOffsetsResponse { responses, ..Default::default() };
            Verdict::InPart(refused.into())
        })
    }

    fn invalid(&self, _version: i16) -> Option<ErrorCode> {
        without_group(&self.group_id)
    }
}

impl CoordinatorAnswer for AlterShareGroupOffsetsResponse<'_> {
    /// Adds the refusals. If the group has an error, its answer has no topics.
    fn merge(&mut self, refused: Self) {
        if self.error_code == 0 {
            self.responses.extend(refused.responses);
            self.error_code = refused.error_code;
        }
    }

    fn fail(&mut self, error: ErrorCode) {
        *self = Self { error_code: error.code(), ..Default::default() };
    }
}

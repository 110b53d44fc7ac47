//! DeleteShareGroupOffsets.

use super::{CoordinatorAnswer, GroupApi, NamedGroups, owned, without_group};
use crate::dispatch::authorization::{By, Verdict, take_denied, words};
use crate::security::acls::Operation::{Delete, Read};
use muster_codec::messages::{
    DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse, DeleteShareGroupOffsetsResponseTopic,
};
use muster_codec::{ErrorCode, Response};

impl GroupApi for DeleteShareGroupOffsetsRequest<'_> {
    fn named(&mut self, _version: i16) -> NamedGroups<'_> {
        NamedGroups::One(&self.group_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        DeleteShareGroupOffsetsResponse { error_code: error.code(), ..Default::default() }.into()
    }

    /// The group is checked even if no topic remains.
    fn authorize(&mut self, by: &By<'_>) -> Verdict {
        let whole = by.group(Delete, &self.group_id);
        let whole = Verdict::whole(whole, |error| self.refused(by.version, error));
        whole.then(|| {
            let denied = take_denied(&mut self.topics, |it| by.topic(Read, &it.topic_name));
            let Some(denied) = denied else { return Verdict::Passed };
            let responses = denied.iter().map(refused_topic).collect();
            let refused = DeleteShareGroupOffsetsResponse { responses, ..Default::default() };
            Verdict::InPart(refused.into())
        })
    }

    fn invalid(&self, _version: i16) -> Option<ErrorCode> {
        without_group(&self.group_id)
    }
}

impl CoordinatorAnswer for DeleteShareGroupOffsetsResponse<'_> {
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

fn refused_topic(
    topic: &DeleteShareGroupOffsetsRequestTopic<'_>,
) -> DeleteShareGroupOffsetsResponseTopic<'static> {
    let error = ErrorCode::TopicAuthorizationFailed;
    DeleteShareGroupOffsetsResponseTopic {
        topic_name: owned(&topic.topic_name),
        error_code: error.code(),
        error_message: words(error),
        ..Default::default()
    }
}

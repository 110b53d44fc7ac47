//! Changes an answer before it leaves, as the authorizer requires.

use super::join::join;
use super::restrict::restrict;
use crate::cluster::ClusterImage;
use crate::dispatch::group_apis;
use crate::net::Amend;
use crate::security::acls::{Permissions, ResourceType};
use muster_codec::{Response, Routed};
use std::sync::Arc;

/// Changes an answer as the client's permissions and the image at the time of the request require.
#[derive(Debug)]
pub(crate) struct Amendment {
    /// None if the server has no authorizer: every client may then do everything.
    restriction: Option<(Arc<Permissions>, Arc<ClusterImage>)>,
    /// Whether the client asked for the operations that it may perform on groups. The amendment
    /// adds these operations, as the groups' coordinator does not know the client's permissions.
    asks_for_operations: bool,
    /// The answer to the denied part of the request.
    refused: Option<Response<'static>>,
    /// The approximate size of `refused` in memory, in bytes.
    held: usize,
}

impl Amendment {
    /// The amendment for a request that may be denied in part.
    pub(crate) fn new(
        request: &mut Routed<'_>,
        restriction: (Arc<Permissions>, Arc<ClusterImage>),
        (version, refused): (i16, Option<Response<'static>>),
    ) -> Self {
        let held = refused.as_ref().map_or(0, |refused| held(refused, version));
        let asks_for_operations = asks_for_operations(request);
        Self { restriction: Some(restriction), asks_for_operations, refused, held }
    }

    /// The amendment for a request without an authorizer; None if the answer does not change.
    pub(crate) fn unrestricted(request: &mut Routed<'_>) -> Option<Self> {
        asks_for_operations(request).then_some(Self {
            restriction: None,
            asks_for_operations: true,
            refused: None,
            held: 0,
        })
    }
}

impl Amend for Amendment {
    fn amend(&mut self, response: &mut Response<'_>, is_last: bool) {
        if self.asks_for_operations {
            fill_operations(response);
        }
        if let Some((permissions, image)) = &self.restriction {
            restrict(response, permissions, image);
        }
        if let Some(refused) = self.refused.take() {
            self.refused = join(response, refused, is_last);
        }
    }

    fn held(&self) -> usize {
        self.held
    }
}

/// Estimates the size of an answer in memory, which is larger than its encoded length.
fn held(refused: &Response<'_>, version: i16) -> usize {
    const IN_MEMORY: usize = 4;
    let mut bytes = Vec::new();
    // An error is ignored: a response that cannot be encoded is never sent.
    let _ = refused.write(version, &mut bytes);
    IN_MEMORY * bytes.len()
}

fn asks_for_operations(request: &mut Routed<'_>) -> bool {
    match request {
        Routed::Group(request) => group_apis::asks_for_operations(request),
        Routed::Partition(_)
        | Routed::Share(_)
        | Routed::Transaction(_)
        | Routed::Controller(_)
        | Routed::Cluster(_)
        | Routed::Broker(_) => false,
    }
}

/// Fills in all operations for the described groups.
fn fill_operations(response: &mut Response<'_>) {
    let operations = ResourceType::Group.operations();
    if let Response::DescribeGroups(body) = response {
        let described = body.groups.iter_mut().filter(|it| it.error_code == 0);
        described.for_each(|it| it.authorized_operations = operations);
    } else if let Response::ConsumerGroupDescribe(body) = response {
        let described = body.groups.iter_mut().filter(|it| it.error_code == 0);
        described.for_each(|it| it.authorized_operations = operations);
    } else if let Response::ShareGroupDescribe(body) = response {
        let described = body.groups.iter_mut().filter(|it| it.error_code == 0);
        described.for_each(|it| it.authorized_operations = operations);
    } else if let Response::StreamsGroupDescribe(body) = response {
        let described = body.groups.iter_mut().filter(|it| it.error_code == 0);
        described.for_each(|it| it.authorized_operations = operations);
    }
}

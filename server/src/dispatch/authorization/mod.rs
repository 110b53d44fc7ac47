//! The permissions that each API requires, as in Kafka's `KafkaApis` and `ControllerApis`: the
//! operation and the resource, the error, and what an answer leaves out.
//!
//! [`screen`] removes denied parts from a request before it is handled. [`Amendment`] then adds the
//! refusals to the answer, and removes what the client may not see. Both use the permissions at the
//! time of the request. The APIs of each role have a file of their own, with a line for each API;
//! those of groups are in the file of each API (`group_apis/`).
//!
//! So no handler deals with ACLs.

mod amendment;
mod broker;
mod by;
mod cluster;
mod controller;
mod groups;
mod join;
mod partitions;
mod refusals;
mod restrict;
mod shares;
#[cfg(test)]
mod tests;
mod transactions;

pub(crate) use amendment::Amendment;
pub(crate) use by::{By, Denial};

use muster_codec::{Response, Routed};

/// The result of authorizing a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The whole request is allowed, and its answer does not change.
    Passed,
    /// The whole request is allowed; the answer shows only what the client may see.
    Restricted,
    /// Part of the request is allowed, and remains. This response refuses the denied part.
    InPart(Response<'static>),
    /// The whole request is denied with this response.
    Refused(Response<'static>),
}

/// Removes the denied parts of a request.
pub(crate) fn screen(request: &mut Routed<'_>, by: &By<'_>) -> Verdict {
    match request {
        Routed::Group(request) => groups::screen(request, by),
        Routed::Partition(request) => partitions::screen(request, by),
        Routed::Share(request) => shares::screen(request, by),
        Routed::Transaction(request) => transactions::screen(request, by),
        Routed::Controller(request) => controller::screen(request, by),
        Routed::Cluster(request) => cluster::screen(request, by),
        Routed::Broker(request) => broker::screen(request, by),
    }
}

impl Verdict {
    /// The verdict on a request that is allowed or denied as a whole.
    fn whole<R: Into<Response<'static>>, E>(
        allowed: Result<(), E>,
        refused: impl FnOnce(E) -> R,
    ) -> Self {
        match allowed {
            Ok(()) => Self::Passed,
            Err(error) => Self::Refused(refused(error).into()),
        }
    }

    /// The verdict on a request whose parts are checked one by one. `denied` refuses the denied
    /// parts. `is_rest_empty` is whether no other part remains.
    fn of_parts<R: Into<Response<'static>>>(denied: Option<R>, is_rest_empty: bool) -> Self {
        match denied {
            None => Self::Passed,
            Some(refused) if is_rest_empty => Self::Refused(refused.into()),
            Some(refused) => Self::InPart(refused.into()),
        }
    }

    /// The same verdict, but with a restricted answer.
    fn restricted(self) -> Self {
        if let Self::Passed = self { Self::Restricted } else { self }
    }
}

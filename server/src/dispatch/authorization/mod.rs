//! The permissions that each API needs, as Kafka's `KafkaApis` and `ControllerApis` check them:
//! which operation on which resource, which error, and which parts are left out of an answer.
//!
//! [`screen`] takes the parts of a request that are denied out of it, before anything else sees
//! them; [`Amendment`] adds the answer to them, and takes out of the answer what the client may not
//! see. Both are by the permissions at the time of the request. The APIs of each role have a file,
//! with a line for each API.

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

/// The decision about a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// All of it is allowed, and so is all of its answer.
    Passed,
    /// All of it is allowed; of its answer, what the client may see.
    Restricted,
    /// A part of it is allowed, and remains; this response refuses the other part.
    InPart(Response<'static>),
    /// Nothing of it is allowed: this response is the answer.
    Refused(Response<'static>),
}

/// Takes out the parts of a request that are denied.
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
    /// For a request that is allowed or denied as a whole.
    fn whole<R: Into<Response<'static>>, E>(
        allowed: Result<(), E>,
        refused: impl FnOnce(E) -> R,
    ) -> Self {
        match allowed {
            Ok(()) => Self::Passed,
            Err(error) => Self::Refused(refused(error).into()),
        }
    }

    /// For a request of which some parts are denied, and others remain or not.
    fn of_parts<R: Into<Response<'static>>>(denied: Option<R>, is_rest_empty: bool) -> Self {
        match denied {
            None => Self::Passed,
            Some(refused) if is_rest_empty => Self::Refused(refused.into()),
            Some(refused) => Self::InPart(refused.into()),
        }
    }

    /// The same, with an answer that is restricted.
    fn restricted(self) -> Self {
        if let Self::Passed = self { Self::Restricted } else { self }
    }
}

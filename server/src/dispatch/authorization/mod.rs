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
mod join;
mod partitions;
mod refusals;
mod restrict;
mod shares;
#[cfg(test)]
mod tests;
mod transactions;
mod verdict;

pub(crate) use amendment::Amendment;
pub(crate) use by::{By, Denial};
pub(super) use by::{take_denied, words};
pub(super) use refusals::take_refused;
pub(crate) use verdict::Verdict;

use super::group_apis;
use muster_codec::Routed;

/// Removes the denied parts of a request.
pub(crate) fn screen(request: &mut Routed<'_>, by: &By<'_>) -> Verdict {
    match request {
        Routed::Group(request) => group_apis::authorize(request, by),
        Routed::Partition(request) => partitions::screen(request, by),
        Routed::Share(request) => shares::screen(request, by),
        Routed::Transaction(request) => transactions::screen(request, by),
        Routed::Controller(request) => controller::screen(request, by),
        Routed::Cluster(request) => cluster::screen(request, by),
        Routed::Broker(request) => broker::screen(request, by),
    }
}

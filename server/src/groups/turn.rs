//! The inputs of a shard's groups: those of a call to a coordinator, and those at the end of a
//! turn.

use crate::clock::Times;
use crate::cluster::ClusterImage;
use crate::logging::RequestErrors;
use crate::net::Connections;
use muster_coordinator::Ids;
use muster_runtime::Runtime;

/// The inputs of a call to a coordinator.
pub(crate) struct Inputs<'i> {
    pub(crate) times: Times,
    pub(crate) ids: &'i mut dyn Ids,
    pub(crate) image: &'i ClusterImage,
    pub(crate) errors: &'i mut RequestErrors,
    pub(crate) runtime: &'i mut Runtime,
}

impl Inputs<'_> {
    /// Returns the same inputs again, for a caller that makes several calls with them.
    pub(crate) fn again(&mut self) -> Inputs<'_> {
        let Self { times, ids, image, errors, runtime } = self;
        Inputs { times: *times, ids: &mut **ids, image, errors, runtime }
    }
}

/// The state of the shard at the end of a turn.
pub(crate) struct TurnEnd<'t> {
    pub(crate) now: i64,
    pub(crate) connections: &'t Connections,
}

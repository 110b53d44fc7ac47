//! Whether this node answers the requests of a slot. On one machine it answers all.

use crate::placement::Slot;
use muster_codec::ErrorCode;
use muster_runtime::Runtime;
use muster_runtime::replicas::Serving;

/// The error for requests of a slot that this node leads but does not serve yet.
pub(crate) const LOADING: ErrorCode = ErrorCode::CoordinatorLoadInProgress;

/// Checks that this node serves a slot.
///
/// # Errors
/// NOT_COORDINATOR if another node leads the slot, or none. A client that gets it looks for the
/// leader again. [`LOADING`] if this node was elected and is not ready: the client asks again here.
pub(crate) fn check_served(runtime: &Runtime, slot: Slot) -> Result<(), ErrorCode> {
    match runtime.serving(slot.log_slot()) {
        Serving::Here => Ok(()),
        Serving::Soon => Err(LOADING),
        Serving::Elsewhere => Err(ErrorCode::NotCoordinator),
    }
}

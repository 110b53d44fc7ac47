//! Removes all groups, so that the next test begins as with a new server.

use super::{Coordinator, WalkProgress};
use crate::context::Context;
use crate::group::Entry;
use crate::limits::EXPIRE_RECORDS_MAX;
use crate::offsets;
use crate::output::Output;
use crate::text::Text;
use crate::turn::Turn;
use muster_codec::ErrorCode;

impl Coordinator {
    /// Removes groups after `after`, with their members and offsets, up to the limit of one call.
    /// Returns the progress of the walk.
    pub fn reset_after(
        &mut self,
        context: &mut Context<'_>,
        after: Option<&str>,
        output: &mut Output<'static>,
    ) -> WalkProgress {
        let mut through = after.map(Text::from);
        while output.records.len() < EXPIRE_RECORDS_MAX {
            let Some(id) = self.groups.id_after(through.as_ref()) else { return WalkProgress::End };
            self.load_offsets(&id);
            let is_gone = self.with(context.around(), output, &id, |turn, entry| {
                entry.is_none_or(|entry| reset_group(turn, entry))
            });
            if !is_gone {
                break;
            }
            through = Some(id);
        }
        WalkProgress::After(through.map(|id| id.as_ref().into()))
    }
}

/// Writes the tombstones of a group and answers its parked requests. Returns false if the group has
/// more offsets than one call may delete.
fn reset_group(turn: &mut Turn<'_, '_>, entry: &mut Entry) -> bool {
    if !offsets::delete_some(turn, &entry.offsets, &entry.id, EXPIRE_RECORDS_MAX) {
        return false;
    }
    if let Some(group) = &mut entry.group {
        group.dismiss_all(turn, ErrorCode::RebalanceInProgress);
        group.write_tombstones(turn, &entry.id);
    }
    true
}

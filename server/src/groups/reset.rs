//! The removal of all groups of a shard, for a test that begins as with a new server.

use super::{Groups, Inputs};
use crate::inquiry::SurveyPlace;
use crate::net::Reply;
use muster_coordinator::WalkProgress;

impl Groups {
    /// Removes some groups, from the place `from` on, or from the first group on if it is None.
    /// Returns the place from which the next call has to continue.
    pub(crate) fn reset_slice(
        &mut self,
        from: Option<SurveyPlace>,
        mut inputs: Inputs<'_>,
        take: impl FnMut(Reply<'_>),
    ) -> Option<SurveyPlace> {
        let first = || self.coordinators.slots().next(None).map(|slot| (slot, None));
        let (slot, after) = from.or_else(first)?;
        let (output, reached) = self.coordinators.reset(slot, inputs.again(), after.as_deref());
        self.coordinators.write(slot, inputs, output, take);
        match reached {
            WalkProgress::After(group) => Some((slot, group)),
            WalkProgress::End => {
                self.coordinators.slots().next(Some(slot)).map(|slot| (slot, None))
            }
        }
    }
}

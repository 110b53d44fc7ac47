//! The slots that a node leads in a cluster. It may begin and cease to lead a slot at any time.

use super::requests::reply_of;
use super::{Groups, Inputs};
use crate::config::Config;
use crate::net::Reply;
use crate::placement::Slot;

impl Groups {
    /// The node leads a slot from now on, whose machine has all committed records. Sessions and
    /// deadlines of its groups start at the end of the grace.
    pub(crate) fn lead(&mut self, slot: Slot, config: &Config, inputs: &Inputs<'_>, grace_ms: i64) {
        let now = self.coordinators.time(inputs.times.now).saturating_add(grace_ms);
        self.slots_mut().lead(slot, config, (now, inputs.times.wall), inputs.image);
    }

    /// The node does not lead a slot any more. Answers what is parked, and forgets what waits for
    /// positions of the slot, before its machine is made again.
    pub(crate) fn deposed(
        &mut self,
        slot: Slot,
        inputs: Inputs<'_>,
        mut take: impl FnMut(Reply<'_>),
    ) {
        let resigned = self.coordinators.resign(slot, inputs);
        resigned.answers.into_iter().for_each(|answer| take(reply_of(slot, answer)));
        self.forget_markers(slot);
    }
}

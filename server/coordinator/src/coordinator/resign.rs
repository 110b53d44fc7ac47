//! The end of a coordinator: another node leads its slot.

use super::Coordinator;
use crate::budget::Budget;
use crate::context::Context;
use crate::output::Output;
use muster_codec::ErrorCode;

impl Coordinator {
    /// Answers all parked requests: their groups have another coordinator. No answer waits for
    /// records, as those that are not durable yet may never be. Call [`Self::release`] next.
    pub fn resign(&mut self, context: &Context<'_>) -> Output<'static> {
        let mut output = Output::default();
        let mut next = self.groups.live_after(None);
        while let Some(id) = next {
            self.with(context.around(), &mut output, &id, |turn, entry| {
                let Some(entry) = entry else { return };
                let successor = entry.successor.iter_mut().map(|group| &mut **group);
                for group in entry.group.iter_mut().chain(successor) {
                    group.dismiss_all(turn, ErrorCode::NotCoordinator);
                }
            });
            next = self.groups.live_after(Some(&id));
        }
        output.answers.iter_mut().for_each(|answer| answer.visible_at = 0);
        output
    }

    /// Takes back what addresses pay for in the shared budget. The coordinator must not be used
    /// afterwards.
    pub fn release(&mut self, budget: &mut Budget) {
        while let Some(id) = self.groups.live_after(None) {
            self.forget(&id);
        }
        self.settle(budget);
    }
}

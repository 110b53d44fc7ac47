//! Removes all transactional ids, so that the next test begins as with a new server.

use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::entry::Phase;
use crate::ids::Seen;
use crate::limits::EXPIRE_IDS_MAX;
use crate::output::Output;
use crate::text::Text;
use alloc::vec::Vec;

impl Coordinator {
    /// Removes at most [`EXPIRE_IDS_MAX`] ids. If an id has an open transaction, aborts it instead;
    /// a later call then removes the id. Returns whether there were any ids.
    pub fn reset(&mut self, context: &mut Context<'_>) -> (Output, bool) {
        self.enter_call(context);
        let mut out = Output::default();
        let seen = self.ids.after(None).take(EXPIRE_IDS_MAX);
        // Outcomes are not kept, because the partitions that might need them are removed, too.
        let is_over = |it: &Seen<'_>| it.is_idle() && it.durable.open.is_none();
        let ids: Vec<(Text, bool)> = seen.map(|it| (Text::from(it.id), is_over(&it))).collect();
        for (id, is_over) in &ids {
            if *is_over {
                self.write(id, None, &mut out);
            } else {
                self.end_for_reset(context, id, &mut out);
            }
        }
        (out, !ids.is_empty())
    }

    /// Brings an id to rest, unless that is under way.
    fn end_for_reset(&mut self, context: &mut Context<'_>, id: &Text, out: &mut Output) {
        let Some(entry) = self.ids.get(id).filter(|it| !it.is_pending()) else { return };
        if entry.durable.open.is_some() {
            // If the transaction cannot be decided yet, the next call finds it again.
            let _later = self.fence(context, id, out);
        } else if matches!(entry.phase(), Phase::Idle) && entry.has_unsynced() {
            self.settle(context, id, out);
        }
    }
}

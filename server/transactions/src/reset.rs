//! The removal of all transactional ids, for a test that begins as with a new server.

use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::entry::Phase;
use crate::ids::Seen;
use crate::limits::EXPIRE_IDS_MAX;
use crate::output::Output;
use crate::text::Text;
use alloc::vec::Vec;

impl Coordinator {
    /// Removes ids, up to the limit of one call, and has the open transactions of others abort: a
    /// later call removes these. Returns whether there were any.
    pub fn reset(&mut self, context: &mut Context<'_>) -> (Output, bool) {
        self.enter_call(context);
        let mut out = Output::default();
        let seen = self.ids.after(None).take(EXPIRE_IDS_MAX);
        // Outcomes are not kept: the partitions that might ask for them are removed, too.
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

    /// Has an id come to rest, unless it is on its way.
    fn end_for_reset(&mut self, context: &mut Context<'_>, id: &Text, out: &mut Output) {
        let Some(entry) = self.ids.get(id).filter(|it| !it.is_pending()) else { return };
        if entry.durable.open.is_some() {
            // If it cannot be decided yet, the next call finds it again.
            let _later = self.fence(context, id, out);
        } else if matches!(entry.phase(), Phase::Idle) && entry.has_unsynced() {
            self.settle(context, id, out);
        }
    }
}

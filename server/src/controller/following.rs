//! The controller at the nodes of a cluster. The leader of the image's slot decides changes; the
//! others have the image, and give it to their shards.

use super::{Controller, Pending};
use crate::event::Command;
use muster_codec::ErrorCode;
use std::sync::Arc;

impl Controller {
    /// The machine has the changes that other nodes made, up to this committed entry. Sends the
    /// image to the shards of this node, unless they have it.
    pub(crate) fn follow(&mut self, committed: u64, out: &mut Vec<Command>) {
        if committed <= self.followed {
            return;
        }
        self.followed = committed;
        self.published = Arc::new(self.accepted().clone());
        self.send_image(out);
    }

    /// Another node decides changes. Those that this one has decided may never be committed, so
    /// their clients get an error. The image that was published is committed, and stays.
    pub(crate) fn deposed(&mut self, out: &mut Vec<Command>) {
        self.unpublished.clear();
        let of_access = self.access.take_pending();
        let pending = self.answers.drain(..).map(|(_, pending)| pending);
        for Pending { to, mut message, .. } in of_access.into_iter().chain(pending) {
            message.fail(ErrorCode::NotController);
            out.push(Command::mail(to, message));
        }
    }
}

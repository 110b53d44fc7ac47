//! The effects of a node on the rest of the world.

use super::Fact;
use crate::event::MachineEvent;
use crate::net::LinkId;

/// An effect of a machine on the rest of the world; `F` are the facts that it shows. Effects are
/// carried out in their order, after the turn that has them: a turn sees its own node only.
#[derive(Debug)]
pub(crate) enum Effect<F = Fact> {
    /// An event of the node is due at a time.
    Planned { at: u64, event: MachineEvent },
    /// A shard has passed output to an open connection: whole answers, or parts of them.
    Sent { shard: u32, link: LinkId, bytes: Vec<u8>, is_whole: bool },
    /// No output of a connection follows; the socket has accepted all that there was if `is_empty`.
    Finished { link: LinkId, is_empty: bool },
    /// The server's end of a connection is closed; output that has not left is dropped.
    Closed { link: LinkId },
    /// A fact about a shard.
    Showed { shard: u32, fact: F },
}

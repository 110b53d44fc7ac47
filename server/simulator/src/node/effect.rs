//! The effects of a node on the rest of the world.

use super::Fact;
use crate::event::MachineEvent;
use crate::net::LinkId;

/// An effect of a machine on the rest of the world; `F` is the type of the facts that it shows to
/// the judge. Effects are carried out in order after the turn that produced them: during the turn
/// nothing outside the node changes.
#[derive(Debug)]
pub(crate) enum Effect<F = Fact> {
    /// An event of a node is due at a time. The number of the only node is 0.
    Planned { at: u64, node: u32, event: MachineEvent },
    /// A shard has passed output to an open connection: whole answers, or parts of them.
    Sent { shard: u32, link: LinkId, bytes: Vec<u8>, is_whole: bool },
    /// No more output of a connection follows. `is_empty` is whether the socket has accepted all
    /// output.
    Finished { link: LinkId, is_empty: bool },
    /// The server's end of a connection is closed. Output that has not left is dropped.
    Closed { link: LinkId },
    /// A fact about a shard.
    Showed { shard: u32, fact: F },
}

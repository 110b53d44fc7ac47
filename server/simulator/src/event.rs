//! Everything that can happen at a time: a closed enum, so that nothing is forgotten.

use crate::net::LinkId;

/// Lives count the starts of the server: what was meant for an earlier one happens no more.
#[derive(Debug)]
pub(crate) enum TimedEvent {
    /// A shard's turn.
    Turn { life: u32, shard: u32 },
    /// A file operation of a shard ends.
    FileDone { life: u32, operation: u64 },
    /// The server accepts the connection, or nobody is there.
    Connect { link: LinkId },
    /// The oldest bytes on their way to the server arrive.
    ToServer { link: LinkId },
    /// The server's socket takes the oldest output.
    Taken { link: LinkId },
    /// The oldest bytes on their way to the client arrive.
    ToClient { link: LinkId },
    /// The client learns that the connection is gone.
    Lost { link: LinkId },
    /// The server learns that the client is gone.
    Ended { link: LinkId },
    /// A request was not answered in time.
    Expired { link: LinkId, correlation: i32 },
    /// A member's timer.
    Member { member: u32, armed: u64 },
    /// Another client's.
    Client { client: u32, armed: u64 },
    /// Something goes wrong, as the profile has it.
    Fault,
    /// Members come and go.
    Churn,
    /// The server starts.
    Start,
    /// The server is made to end, in this way, unless it is a later one.
    Crash { life: u32, how: Crash },
    /// A failed shard is loaded again.
    Reload { life: u32, shard: u32 },
    /// A clean stop took too long.
    StopOverdue { life: u32 },
    /// The disk has room again.
    RoomAgain,
    /// Looks whether all is as it should be.
    Check,
}

/// How a server ends against its will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The process is killed; the machine lives.
    Kill,
    /// The machine loses power.
    PowerLoss,
}

//! The reports of a consumer of a share group on its records.

use crate::client::transactor::id_of;

/// A record of a transactor: the number of the transactor's id, and that of the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number {
    pub(crate) id: u32,
    pub(crate) number: i64,
}

/// A report of a member. Its share sessions and its acknowledgements are numbered separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The member's first report.
    Began,
    /// A request of a session was answered without error.
    Answered { session: u32 },
    /// The member acquired an offset. The number is None if the offset has no record.
    Acquired {
        session: u32,
        partition: i32,
        offset: i64,
        number: Option<Number>,
        count: i16,
        lock_ms: i32,
    },
    /// The member is about to acknowledge an offset. So from now on the server may end the lock at
    /// any time.
    Acknowledging(Acknowledgement),
    /// The acknowledgement was answered without error.
    Acknowledged(Acknowledgement),
    /// The acknowledgement was not answered, or was answered with an error. The server may have
    /// accepted it.
    Unknown(Acknowledgement),
    /// A fetch was not answered, so it may have acquired records.
    Lost { partition: i32 },
    /// The records of this session are released, or will be.
    SessionEnded { session: u32, closed: bool },
}

/// An acknowledgement of one offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) id: u32,
    pub(crate) session: u32,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) number: Option<Number>,
    pub(crate) kind: Kind,
}

/// The type of an acknowledgement, with its number in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Gap = 0,
    Accept = 1,
    Release = 2,
    Reject = 3,
    Renew = 4,
}

impl Number {
    /// # Errors
    /// No transactor wrote the record.
    pub(crate) fn read(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Self, String> {
        let key = key.and_then(id_of).and_then(|id| std::str::from_utf8(id).ok());
        let id = key.and_then(|key| key.rsplit('-').next()?.parse().ok());
        let number =
            value.and_then(|value| value.first_chunk::<8>()).map(|it| i64::from_be_bytes(*it));
        id.zip(number)
            .map(|(id, number)| Self { id, number })
            .ok_or("a record of no transactor".to_owned())
    }
}

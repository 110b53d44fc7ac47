//! The connection that this shard dials to a shard of another node, and what is sent on it.

use crate::frame::{Building, FRAME_BYTES_MAX, HEAD_BYTES, Kind};
use crate::hello::HelloBytes;
use crate::limits::{IDLE_MS, OUTPUT_BYTES_FULL, OUTPUT_BYTES_MAX, STUCK_MS};
use crate::message;
use crate::output::Connection;
use crate::process::Mark;
use crate::unsent::Unsent;
use muster_replication::{Body, Group, PeerMessage, Session, Tick};
use std::collections::BTreeSet;

#[derive(Debug)]
pub(crate) enum Stage {
    /// The next connection is dialled at this time.
    Waiting {
        until: i64,
    },
    Dialling {
        connection: Connection,
        deadline: i64,
    },
    /// The other node has not answered yet.
    Greeting {
        connection: Connection,
        deadline: i64,
        answer: HelloBytes,
    },
    Up(Up),
}

#[derive(Debug)]
pub(crate) struct Up {
    pub(crate) connection: Connection,
    pub(crate) session: Session,
    pub(crate) since: i64,
    /// The time of the last frame.
    framed: i64,
    /// The last time at which bytes were sent, or none were left.
    moved: i64,
}

#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) stage: Stage,
    /// The knowledge of the node's process when it was dialled.
    pub(crate) mark: Mark,
    pub(crate) unsent: Unsent,
    frame: Building,
    dropped: BTreeSet<Group>,
}

impl Outgoing {
    pub(crate) fn waiting(until: i64, mark: Mark) -> Self {
        Self {
            stage: Stage::Waiting { until },
            mark,
            unsent: Unsent::default(),
            frame: Building::default(),
            dropped: BTreeSet::new(),
        }
    }

    pub(crate) fn connection(&self) -> Option<Connection> {
        match &self.stage {
            Stage::Waiting { .. } => None,
            Stage::Dialling { connection, .. } | Stage::Greeting { connection, .. } => {
                Some(*connection)
            }
            Stage::Up(up) => Some(up.connection),
        }
    }

    pub(crate) fn up(&self) -> Option<&Up> {
        match &self.stage {
            Stage::Up(up) => Some(up),
            Stage::Waiting { .. } | Stage::Dialling { .. } | Stage::Greeting { .. } => None,
        }
    }

    /// The other node has answered. A frame follows at once, though it is empty: it shows the other
    /// node that this process has read the answer.
    pub(crate) fn begin(&mut self, connection: Connection, session: Session, now: i64, tick: Tick) {
        self.stage = Stage::Up(Up { connection, session, since: now, framed: now, moved: now });
        self.end_frame(tick);
    }

    /// Adds a message to the frame of this turn.
    pub(crate) fn say(&mut self, message: &PeerMessage, tick: Tick) {
        if self.up().is_none() {
            return;
        }
        match message::divided(message) {
            None => self.add(message, tick),
            Some(parts) => parts.iter().for_each(|it| self.add(it, tick)),
        }
    }

    fn add(&mut self, message: &PeerMessage, tick: Tick) {
        let length = message::length(message);
        let has_entries =
            matches!(&message.body, Body::Append { entries, .. } if !entries.is_empty());
        let limit = if has_entries { OUTPUT_BYTES_MAX } else { OUTPUT_BYTES_FULL };
        let is_full = self.unsent.bytes() + self.frame.len() > limit;
        if is_full || HEAD_BYTES + length > FRAME_BYTES_MAX {
            self.dropped.insert(message.group);
            return;
        }
        if self.frame.len() + length > FRAME_BYTES_MAX {
            self.end_frame(tick);
        }
        message::write(message, &mut self.frame);
    }

    /// Ends the frame of a turn. Returns the groups with dropped messages.
    pub(crate) fn end_turn(&mut self, now: i64, tick: Tick) -> Vec<Group> {
        let Stage::Up(up) = &mut self.stage else { return Vec::new() };
        if !self.frame.is_empty() || up.framed + IDLE_MS <= now {
            if self.unsent.bytes() == 0 {
                up.moved = now;
            }
            up.framed = now;
            self.end_frame(tick);
        }
        std::mem::take(&mut self.dropped).into_iter().collect()
    }

    fn end_frame(&mut self, tick: Tick) {
        let frame = std::mem::take(&mut self.frame);
        frame.finish(Kind::Groups, tick).into_iter().for_each(|it| self.unsent.add(it));
    }

    pub(crate) fn sent(&mut self, bytes: usize, now: i64) {
        self.unsent.sent(bytes);
        if let Stage::Up(up) = &mut self.stage {
            up.moved = now;
        }
    }

    /// The time at which unsent bytes end the connection.
    pub(crate) fn stuck_at(&self) -> Option<i64> {
        let up = self.up().filter(|_| self.unsent.bytes() > 0);
        up.map(|it| it.moved + STUCK_MS)
    }

    /// The deadlines of the other node are that much later.
    pub(crate) fn postpone(&mut self, pause: i64) {
        match &mut self.stage {
            Stage::Waiting { .. } => {}
            Stage::Dialling { deadline, .. } | Stage::Greeting { deadline, .. } => {
                *deadline += pause;
            }
            Stage::Up(up) => up.moved += pause,
        }
    }

    /// The next time at which something is due.
    pub(crate) fn deadline(&self) -> Option<i64> {
        match &self.stage {
            Stage::Waiting { until } => Some(*until),
            Stage::Dialling { deadline, .. } | Stage::Greeting { deadline, .. } => Some(*deadline),
            Stage::Up(up) => {
                let idle = up.framed + IDLE_MS;
                Some(self.stuck_at().map_or(idle, |it| it.min(idle)))
            }
        }
    }
}

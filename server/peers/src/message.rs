//! Raft's messages in a frame. `FORMAT.md` has the fields.
//!
//! Here only the form is checked. The state of a replica decides whether a message is possible:
//! `muster_replication::validation`.

use crate::frame::{Building, FrameError};
use crate::limits::APPEND_BYTES_MAX;
use bytes::Bytes;
use muster_codec::wire::Reader;
use muster_replication::{
    Base, Body, Change, Content, Entry, Group, Index, Members, PeerMessage, ReplicaId, Round, Term,
    Tick,
};

/// The fields that each message begins with.
const HEAD_BYTES: usize = 28;

/// The head of an entry.
const ENTRY_HEAD_BYTES: usize = 9;

/// The length of an index with its term.
const POSITION_BYTES: usize = 12;

/// The most replicas in each list of the members of a snapshot.
pub const MEMBERS_MAX: usize = 16;

type Result<T> = std::result::Result<T, FrameError>;

const fn refuse<T>(why: &'static str) -> Result<T> {
    Err(FrameError::Message(why))
}

/// The numbers of the bodies.
mod number {
    pub(super) const APPEND: u8 = 1;
    pub(super) const APPENDED: u8 = 2;
    pub(super) const REJECTED: u8 = 3;
    pub(super) const HEARTBEAT: u8 = 4;
    pub(super) const HEARD: u8 = 5;
    pub(super) const VOTE: u8 = 6;
    pub(super) const VOTED: u8 = 7;
    pub(super) const INSTALL: u8 = 8;
    pub(super) const STAND_NOW: u8 = 9;
}

/// The numbers of the contents of entries: those of `storage/FORMAT.md`.
mod content {
    pub(super) const RECORDS: u8 = 0;
    pub(super) const EMPTY: u8 = 1;
    pub(super) const CHANGE: u8 = 2;
}

/// The number of bytes that [`write()`] appends for this message.
pub fn length(message: &PeerMessage) -> usize {
    let of_round = |round: &Option<Round>| if round.is_some() { 8 } else { 0 };
    let body = match &message.body {
        Body::Append { entries, .. } => {
            let entries = entries.iter().map(entry_length);
            POSITION_BYTES + 8 + 4 + entries.sum::<usize>()
        }
        Body::Appended { .. } => 8,
        Body::Rejected { .. } => 8 + POSITION_BYTES,
        Body::Heartbeat { round, .. } => 8 + of_round(round),
        Body::Heard { round } => of_round(round),
        Body::Vote { .. } => 2 * POSITION_BYTES,
        Body::Voted { .. } => POSITION_BYTES,
        Body::Install { base } => POSITION_BYTES + 3 + 8 * base.members.all().count(),
        Body::StandNow => 0,
    };
    HEAD_BYTES + body
}

/// Divides an append whose entries have more than [`APPEND_BYTES_MAX`] bytes. None for any other
/// message. A receiver can apply each part by itself.
pub(crate) fn divided(message: &PeerMessage) -> Option<Vec<PeerMessage>> {
    let Body::Append { previous, commit, entries } = &message.body else { return None };
    if entries.len() < 2 || length(message) <= APPEND_BYTES_MAX {
        return None;
    }
    let (mut parts, mut rest, mut previous) = (Vec::new(), &entries[..], *previous);
    while let Some(first) = rest.first() {
        let (mut count, mut bytes) = (1, entry_length(first));
        for entry in &rest[1..] {
            bytes += entry_length(entry);
            if bytes > APPEND_BYTES_MAX {
                break;
            }
            count += 1;
        }
        let (part, others) = rest.split_at(count);
        let last = part.last().map_or(previous, |it| (it.index, it.term));
        let commit = *commit.min(&last.0);
        let body = Body::Append { previous, commit, entries: part.to_vec() };
        let PeerMessage { group, from, to, term, echo, .. } = *message;
        parts.push(PeerMessage { group, from, to, term, echo, body });
        (rest, previous) = (others, last);
    }
    Some(parts)
}

fn entry_length(entry: &Entry) -> usize {
    let content = match &entry.content {
        Content::Records(records) => records.len(),
        Content::Empty => 0,
        Content::Change(_) => Change::ENCODED,
    };
    ENTRY_HEAD_BYTES + content
}

/// Appends a message to a frame.
///
/// # Panics
/// If its entries are not contiguous, or a list of members has over 255 replicas. No message of
/// raft is like this.
pub fn write(message: &PeerMessage, frame: &mut Building) {
    let PeerMessage { group, from, to, term, echo, body } = message;
    let (number, flags) = kind_of(body);
    frame.put(&[number, flags]);
    frame.put(&group.0.to_be_bytes());
    frame.put(&echo.0.to_be_bytes());
    frame.put(&term.0.to_be_bytes());
    frame.put(&from.raw().to_be_bytes());
    frame.put(&to.raw().to_be_bytes());
    match body {
        Body::Append { previous, commit, entries } => {
            put_position(*previous, frame);
            put_index(*commit, frame);
            frame.put(&(entries.len() as u32).to_be_bytes());
            let mut index = previous.0;
            for entry in entries {
                index = index.next();
                assert_eq!(entry.index, index, "entries follow each other");
                put_entry(entry, frame);
            }
        }
        Body::Appended { last } => put_index(*last, frame),
        Body::Rejected { at, hint } => {
            put_index(*at, frame);
            put_position(*hint, frame);
        }
        Body::Heartbeat { commit, round } => {
            put_index(*commit, frame);
            put_round(*round, frame);
        }
        Body::Heard { round } => put_round(*round, frame),
        Body::Vote { last, commit, .. } => {
            put_position(*last, frame);
            put_position(*commit, frame);
        }
        Body::Voted { commit, .. } => put_position(*commit, frame),
        Body::Install { base } => put_base(base, frame),
        Body::StandNow => {}
    }
}

/// The number of a body, and its flags.
fn kind_of(body: &Body) -> (u8, u8) {
    let flags = |first: bool, second: bool| u8::from(first) | u8::from(second) << 1;
    match body {
        Body::Append { .. } => (number::APPEND, 0),
        Body::Appended { .. } => (number::APPENDED, 0),
        Body::Rejected { .. } => (number::REJECTED, 0),
        Body::Heartbeat { round, .. } => (number::HEARTBEAT, flags(round.is_some(), false)),
        Body::Heard { round } => (number::HEARD, flags(round.is_some(), false)),
        Body::Vote { pre, transfer, .. } => (number::VOTE, flags(*pre, *transfer)),
        Body::Voted { pre, granted, .. } => (number::VOTED, flags(*pre, *granted)),
        Body::Install { .. } => (number::INSTALL, 0),
        Body::StandNow => (number::STAND_NOW, 0),
    }
}

fn put_index(index: Index, frame: &mut Building) {
    frame.put(&index.0.to_be_bytes());
}

fn put_position((index, term): (Index, Term), frame: &mut Building) {
    put_index(index, frame);
    frame.put(&term.0.to_be_bytes());
}

fn put_round(round: Option<Round>, frame: &mut Building) {
    if let Some(Round(round)) = round {
        frame.put(&round.to_be_bytes());
    }
}

fn put_entry(entry: &Entry, frame: &mut Building) {
    let mut head = |content: u8, length: usize| {
        frame.put(&[content]);
        frame.put(&entry.term.0.to_be_bytes());
        frame.put(&(length as u32).to_be_bytes());
    };
    match &entry.content {
        Content::Records(records) => {
            head(content::RECORDS, records.len());
            frame.put_shared(records);
        }
        Content::Empty => head(content::EMPTY, 0),
        Content::Change(change) => {
            head(content::CHANGE, Change::ENCODED);
            frame.put(&change.encode());
        }
    }
}

fn put_base(base: &Base, frame: &mut Building) {
    let Base { index, term, members: Members { voters, outgoing, learners } } = base;
    put_position((*index, *term), frame);
    for list in [voters, outgoing, learners] {
        let count = u8::try_from(list.len()).expect("a group has few replicas");
        frame.put(&[count]);
    }
    let all = [voters, outgoing, learners].into_iter().flatten();
    all.for_each(|it| frame.put(&it.raw().to_be_bytes()));
}

/// The messages in the body of a frame. After an error there is no further one.
#[derive(Debug, Clone)]
pub struct Messages {
    rest: Bytes,
}

impl Messages {
    pub fn of(body: Bytes) -> Self {
        Self { rest: body }
    }
}

impl Iterator for Messages {
    type Item = Result<PeerMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let body = std::mem::take(&mut self.rest);
        let mut input = Input { reader: Reader::new(&body), body: &body };
        let message = input.message();
        if message.is_ok() {
            let read = body.len() - input.reader.remaining();
            self.rest = body.slice(read..);
        }
        Some(message)
    }
}

/// The messages that are not read yet. Records are parts of `body`, and are not copied.
struct Input<'a> {
    reader: Reader<'a>,
    body: &'a Bytes,
}

impl Input<'_> {
    fn message(&mut self) -> Result<PeerMessage> {
        let [number, flags] = self.reader.array()?;
        let group = Group(self.reader.array().map(u16::from_be_bytes)?);
        let echo = Tick(self.u32()?);
        let term = Term(self.u32()?);
        let (from, to) = (self.replica()?, self.replica()?);
        let body = self.body(number, flags)?;
        Ok(PeerMessage { group, from, to, term, echo, body })
    }

    fn body(&mut self, number: u8, flags: u8) -> Result<Body> {
        let known = match number {
            number::VOTE | number::VOTED => 3,
            number::HEARTBEAT | number::HEARD => 1,
            _ => 0,
        };
        if flags & !known != 0 {
            return refuse("an unknown flag");
        }
        let (first, second) = (flags & 1 != 0, flags & 2 != 0);
        Ok(match number {
            number::APPEND => self.append()?,
            number::APPENDED => Body::Appended { last: self.index()? },
            number::REJECTED => Body::Rejected { at: self.index()?, hint: self.position()? },
            number::HEARTBEAT => {
                Body::Heartbeat { commit: self.index()?, round: self.round(first)? }
            }
            number::HEARD => Body::Heard { round: self.round(first)? },
            number::VOTE => Body::Vote {
                pre: first,
                transfer: second,
                last: self.position()?,
                commit: self.position()?,
            },
            number::VOTED => Body::Voted { pre: first, granted: second, commit: self.position()? },
            number::INSTALL => Body::Install { base: self.base()? },
            number::STAND_NOW => Body::StandNow,
            _ => return refuse("an unknown kind"),
        })
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(self.reader.array().map(u32::from_be_bytes)?)
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(self.reader.array().map(u64::from_be_bytes)?)
    }

    fn replica(&mut self) -> Result<ReplicaId> {
        ReplicaId::from_raw(self.u64()?).map_or_else(|| refuse("a replica without a number"), Ok)
    }

    fn index(&mut self) -> Result<Index> {
        let index = Index(self.u64()?);
        if index < Index::LIMIT { Ok(index) } else { refuse("an index out of range") }
    }

    fn position(&mut self) -> Result<(Index, Term)> {
        Ok((self.index()?, Term(self.u32()?)))
    }

    fn round(&mut self, is_there: bool) -> Result<Option<Round>> {
        if is_there { self.u64().map(|it| Some(Round(it))) } else { Ok(None) }
    }

    fn append(&mut self) -> Result<Body> {
        let previous = self.position()?;
        let commit = self.index()?;
        let count = self.u32()? as usize;
        if count > self.reader.remaining() / ENTRY_HEAD_BYTES {
            return refuse("more entries than bytes");
        }
        let mut entries = Vec::with_capacity(count);
        let mut index = previous.0;
        for _ in 0..count {
            index = index.next();
            entries.push(self.entry(index)?);
        }
        if index >= Index::LIMIT {
            return refuse("an index out of range");
        }
        Ok(Body::Append { previous, commit, entries })
    }

    fn entry(&mut self, index: Index) -> Result<Entry> {
        let number = self.reader.u8()?;
        let term = Term(self.u32()?);
        let length = self.u32()? as usize;
        let bytes = self.reader.take(length)?;
        let content = match (number, length) {
            (content::RECORDS, 1..) => Content::Records(self.body.slice_ref(bytes)),
            (content::EMPTY, 0) => Content::Empty,
            (content::CHANGE, _) => match Change::decode(bytes) {
                Some(change) => Content::Change(change),
                None => return refuse("an unknown change of members"),
            },
            _ => return refuse("an unknown content of an entry"),
        };
        Ok(Entry { index, term, content })
    }

    fn base(&mut self) -> Result<Base> {
        let (index, term) = self.position()?;
        let counts: [u8; 3] = self.reader.array()?;
        let [voters, outgoing, learners] = counts.map(|count| self.replicas(count));
        let members = Members { voters: voters?, outgoing: outgoing?, learners: learners? };
        Ok(Base { index, term, members })
    }

    fn replicas(&mut self, count: u8) -> Result<Vec<ReplicaId>> {
        if usize::from(count) > MEMBERS_MAX {
            return refuse("too many members");
        }
        (0..count).map(|_| self.replica()).collect()
    }
}

#[cfg(test)]
mod tests;

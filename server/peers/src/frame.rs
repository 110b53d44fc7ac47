//! A frame: a length, a checksum, a kind, the sender's newest tick, and a body.

use bytes::Bytes;
use muster_codec::wire::DecodeError;
use muster_replication::Tick;
use std::fmt;

/// The longest frame. An entry is as long as what one block has of its slot, so a message may have
/// 12.3 MiB, and an entry is never divided.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// The bytes before the body.
pub const HEAD_BYTES: usize = 13;

/// The length and the checksum. The length does not count these bytes.
pub(crate) const PREFIX_BYTES: usize = 8;

/// Records of at most this many bytes are copied into the frame. A longer body is shared, which
/// costs a buffer in the system call: about as much as copying 1 KiB.
const COPIED_BYTES_MAX: usize = 1 << 10;

/// The content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Messages of raft's groups.
    Groups,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Groups => 1,
        }
    }

    fn of_number(number: u8) -> Option<Self> {
        (number == Self::Groups.number()).then_some(Self::Groups)
    }
}

/// A frame whose checksum is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    /// The newest tick of the sender.
    pub tick: Tick,
    pub body: Bytes,
}

/// The reason why the bytes of a connection are refused. The connection is closed, since the place
/// of the next frame is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// No frame has this length.
    Length(u32),
    Checksum,
    /// A kind that this version does not know.
    UnknownKind(u8),
    NoTick,
    /// No message has this form.
    Message(&'static str),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(f, "a frame with a length of {length} bytes"),
            Self::Checksum => f.write_str("a frame with a wrong checksum"),
            Self::UnknownKind(kind) => write!(f, "a frame of the unknown kind {kind}"),
            Self::NoTick => f.write_str("a frame without a tick"),
            Self::Message(why) => write!(f, "a message that cannot be read: {why}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<DecodeError> for FrameError {
    fn from(_: DecodeError) -> Self {
        Self::Message("it ends too early")
    }
}

/// Puts the frames of a connection together. The bytes arrive in pieces.
#[derive(Debug, Default)]
pub struct Frames {
    prefix: [u8; PREFIX_BYTES],
    prefix_len: usize,
    /// The bytes after the prefix that have arrived. Its capacity is the length of the frame.
    rest: Vec<u8>,
}

impl Frames {
    /// Takes bytes off the front of `input`, up to the end of a frame. None if the frame needs more
    /// bytes than there are.
    ///
    /// # Errors
    /// The bytes are no frame. No further call is useful.
    pub fn take(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        let missing = PREFIX_BYTES - self.prefix_len;
        if missing > 0 {
            let piece = split(input, missing);
            self.prefix[self.prefix_len..][..piece.len()].copy_from_slice(piece);
            self.prefix_len += piece.len();
            if piece.len() < missing {
                return Ok(None);
            }
            self.rest = Vec::with_capacity(self.length()?);
        }
        let length = self.length()?;
        self.rest.extend_from_slice(split(input, length - self.rest.len()));
        if self.rest.len() < length {
            return Ok(None);
        }
        self.prefix_len = 0;
        let rest = std::mem::take(&mut self.rest);
        finish(&self.prefix, rest.into()).map(Some)
    }

    /// The checked length of the frame after the prefix.
    fn length(&self) -> Result<usize, FrameError> {
        let length = u32_at(&self.prefix, 0);
        let bytes = PREFIX_BYTES + length as usize;
        let is_possible = (HEAD_BYTES..=FRAME_BYTES_MAX).contains(&bytes);
        is_possible.then_some(length as usize).ok_or(FrameError::Length(length))
    }

    /// The bytes that are held for the next frame.
    pub fn held(&self) -> usize {
        self.prefix_len + self.rest.capacity()
    }
}

fn split<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (piece, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    piece
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Checks a frame that is complete. `rest` has the kind and the tick.
fn finish(prefix: &[u8; PREFIX_BYTES], rest: Bytes) -> Result<Frame, FrameError> {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&prefix[..4]), &rest);
    if u32_at(prefix, 4) != checksum {
        return Err(FrameError::Checksum);
    }
    let tick = Tick(u32_at(&rest, 1));
    let kind = Kind::of_number(rest[0]).ok_or(FrameError::UnknownKind(rest[0]))?;
    if tick == Tick::NONE {
        return Err(FrameError::NoTick);
    }
    Ok(Frame { kind, tick, body: rest.slice(HEAD_BYTES - PREFIX_BYTES..) })
}

/// A frame that is being put together. Long records are not copied.
#[derive(Debug)]
pub struct Building {
    /// The bytes of the frame, without the shared ones.
    own: Vec<u8>,
    /// Shared bytes, and the place in `own` before which they stand.
    shared: Vec<(usize, Bytes)>,
    shared_bytes: usize,
}

impl Default for Building {
    fn default() -> Self {
        Self { own: vec![0; HEAD_BYTES], shared: Vec::new(), shared_bytes: 0 }
    }
}

impl Building {
    /// The bytes of the frame so far.
    pub fn len(&self) -> usize {
        self.own.len() + self.shared_bytes
    }

    /// Whether the frame has no body yet.
    pub fn is_empty(&self) -> bool {
        self.len() == HEAD_BYTES
    }

    /// Appends a copy of the bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    /// Appends the bytes, without a copy if they are long.
    pub fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() <= COPIED_BYTES_MAX {
            self.put(bytes);
        } else {
            self.shared.push((self.own.len(), bytes.clone()));
            self.shared_bytes += bytes.len();
        }
    }

    /// The frame, in pieces for a vectored write. None is empty.
    ///
    /// # Panics
    /// If the frame is longer than [`FRAME_BYTES_MAX`].
    pub fn finish(self, kind: Kind, tick: Tick) -> Vec<Bytes> {
        let bytes = self.len();
        assert!(bytes <= FRAME_BYTES_MAX, "a frame of {bytes} bytes");
        let Self { mut own, shared, .. } = self;
        let length = (bytes - PREFIX_BYTES) as u32;
        own[..4].copy_from_slice(&length.to_be_bytes());
        own[PREFIX_BYTES] = kind.number();
        own[PREFIX_BYTES + 1..HEAD_BYTES].copy_from_slice(&tick.0.to_be_bytes());
        let mut checksum = crc32c::crc32c(&own[..4]);
        let mut from = PREFIX_BYTES;
        for (at, bytes) in &shared {
            checksum = crc32c::crc32c_append(checksum, &own[from..*at]);
            checksum = crc32c::crc32c_append(checksum, bytes);
            from = *at;
        }
        checksum = crc32c::crc32c_append(checksum, &own[from..]);
        own[4..PREFIX_BYTES].copy_from_slice(&checksum.to_be_bytes());
        let mut own = Bytes::from(own);
        let (mut pieces, mut from) = (Vec::with_capacity(2 * shared.len() + 1), 0);
        for (at, bytes) in shared {
            pieces.push(own.split_to(at - from));
            pieces.push(bytes);
            from = at;
        }
        pieces.push(own);
        pieces.retain(|it| !it.is_empty());
        pieces
    }
}

#[cfg(test)]
mod tests;

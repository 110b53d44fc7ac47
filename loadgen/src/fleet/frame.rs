//! Greetings and frames. The bytes come from the network and are not trusted: each length is
//! checked before memory is reserved.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

const MAGIC: [u8; 8] = *b"MUSTLOAD";
/// Raised with each change of a message. Both sides must have the same version.
const VERSION: u32 = 4;
/// The maximum length of a frame. The longest frames are reports that a core sends after its
/// reports had to wait: they contain all events since the last one.
const FRAME_MAX: usize = 256 << 20;
/// How much memory is reserved at a time, as bytes arrive.
const STEP: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("it closed the connection")]
    Closed,
    #[error("{0}")]
    Broken(io::Error),
    #[error("it is not a muster-load that serves")]
    NoWorker,
    #[error("it speaks version {0} of the protocol, this is version {VERSION}")]
    Version(u32),
    #[error("a frame of {0} bytes is too long")]
    TooLong(u64),
    #[error("a frame is malformed: {0}")]
    Malformed(serde_json::Error),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Broken(error),
        }
    }
}

/// Sends the greeting, which comes first on both sides.
pub(super) fn greet(to: &mut impl Write) -> Result<(), FrameError> {
    let mut greeting = MAGIC.to_vec();
    greeting.extend(VERSION.to_be_bytes());
    Ok(to.write_all(&greeting)?)
}

pub(super) fn greeted(from: &mut impl Read) -> Result<(), FrameError> {
    let (mut magic, mut version) = ([0; MAGIC.len()], [0; 4]);
    from.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Err(FrameError::NoWorker);
    }
    from.read_exact(&mut version)?;
    match u32::from_be_bytes(version) {
        VERSION => Ok(()),
        other => Err(FrameError::Version(other)),
    }
}

pub(super) fn write<T: Serialize>(to: &mut impl Write, message: &T) -> Result<(), FrameError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).map_err(FrameError::Malformed)?;
    let length = frame.len() - 4;
    let bounded = u32::try_from(length).ok().filter(|_| length <= FRAME_MAX);
    let prefix = bounded.ok_or(FrameError::TooLong(length as u64))?;
    frame[..4].copy_from_slice(&prefix.to_be_bytes());
    Ok(to.write_all(&frame)?)
}

pub(super) fn read<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, FrameError> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_MAX {
        return Err(FrameError::TooLong(length as u64));
    }
    let mut frame = Vec::with_capacity(length.min(STEP));
    from.take(length as u64).read_to_end(&mut frame)?;
    if frame.len() < length {
        return Err(FrameError::Closed);
    }
    serde_json::from_slice(&frame).map_err(FrameError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        greet(&mut bytes).unwrap();
        write(&mut bytes, &("a", 7)).unwrap();
        write(&mut bytes, &Some(1)).unwrap();
        let mut rest = bytes.as_slice();
        greeted(&mut rest).unwrap();
        assert_eq!(read::<(String, u32)>(&mut rest).unwrap(), ("a".to_owned(), 7));
        assert_eq!(read::<Option<u8>>(&mut rest).unwrap(), Some(1));
        assert!(matches!(read::<u8>(&mut rest), Err(FrameError::Closed)));
    }

    #[test]
    fn what_is_not_a_greeting_or_a_frame_is_refused() {
        assert!(matches!(greeted(&mut &b"GET / HTTP/1.1\r\n"[..]), Err(FrameError::NoWorker)));
        assert!(matches!(greeted(&mut &b"MUSTLOAD\0\0\0\x09"[..]), Err(FrameError::Version(9))));
        assert!(matches!(greeted(&mut &b"MUST"[..]), Err(FrameError::Closed)));
        let read = |mut bytes: &[u8]| read::<(String, u32)>(&mut bytes).unwrap_err();
        assert!(matches!(read(b"\xff\xff\xff\xff"), FrameError::TooLong(_)));
        // A long frame that does not arrive takes no memory.
        assert!(matches!(read(b"\x0f\xff\xff\xff[1"), FrameError::Closed));
        assert!(matches!(read(b"\0\0\0\x02[1"), FrameError::Malformed(_)));
        let nested = [&600_u32.to_be_bytes()[..], &[b'['; 600]].concat();
        assert!(matches!(read(&nested), FrameError::Malformed(_)));
    }
}

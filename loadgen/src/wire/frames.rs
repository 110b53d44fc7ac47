//! Splits arriving bytes into frames. Complete frames are passed on without a copy. Only the
//! beginning of an incomplete frame is kept.

use super::{FRAME_BYTES_MAX, Malformed};

/// The buffer capacity that is kept for the next frame. Any excess is freed.
const KEPT_BYTES: usize = 512;

/// The bytes of an incomplete frame.
#[derive(Default)]
pub struct Frames {
    partial: Vec<u8>,
}

impl Frames {
    /// Calls `each` with every frame (without its length) that `bytes` completes.
    ///
    /// # Errors
    /// An impossible length, or an error of `each`. No frame can be read after it.
    pub fn feed<E: From<Malformed>>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        if !self.partial.is_empty() {
            rest = self.complete(rest)?;
            if length(&self.partial)?.is_none_or(|length| self.partial.len() < 4 + length) {
                return Ok(());
            }
            each(&self.partial[4..])?;
            self.partial.clear();
            self.partial.shrink_to(KEPT_BYTES);
        }
        while let Some(length) = length(rest)? {
            let Some(frame) = rest.get(4..4 + length) else { break };
            each(frame)?;
            rest = &rest[4 + length..];
        }
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// Appends the bytes that the partial frame lacks, and returns the bytes that follow them. The
    /// buffer grows with the bytes that have arrived: the announced length reserves no memory.
    fn complete<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let (head, rest) =
            bytes.split_at(bytes.len().min(4usize.saturating_sub(self.partial.len())));
        self.partial.extend_from_slice(head);
        let Some(length) = length(&self.partial)? else { return Ok(rest) };
        let missing = (4 + length).saturating_sub(self.partial.len());
        let (body, rest) = rest.split_at(missing.min(rest.len()));
        self.partial.extend_from_slice(body);
        Ok(rest)
    }
}

/// The length of a frame, from its first 4 bytes. `None` until these have arrived. A length that
/// is too small for a correlation id is an error.
fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(announced) = bytes.first_chunk::<4>().map(|bytes| i32::from_be_bytes(*bytes)) else {
        return Ok(None);
    };
    match usize::try_from(announced) {
        Ok(length) if (4..=FRAME_BYTES_MAX).contains(&length) => Ok(Some(length)),
        _ => Err(Malformed::Length(announced)),
    }
}

//! Strings and bytes that several parts of the state share.

use alloc::sync::Arc;
use muster_codec::{Bytes, Str};

pub(crate) type Text = Arc<str>;
pub(crate) type Blob = Arc<[u8]>;

/// The bytes of a [`Text`] besides its characters: its pointer and length, and two reference
/// counts.
pub(crate) const TEXT_BYTES: usize = 32;

/// An owned copy for an output, which outlives the borrow of the state.
pub(crate) fn owned(text: &str) -> Str<'static> {
    Str::Owned(text.into())
}

/// The text that was sent, or the previous text if none was sent.
pub(crate) fn merged(sent: Option<&Str<'_>>, before: Option<&Text>) -> Option<Text> {
    match (sent, before) {
        (Some(sent), Some(before)) => Some(shared(sent, before)),
        (Some(sent), None) => Some(Text::from(&**sent)),
        (None, before) => before.cloned(),
    }
}

/// A shared text. It reuses `before` if the text is equal.
pub(crate) fn shared(text: &str, before: &Text) -> Text {
    if *text == **before { before.clone() } else { Text::from(text) }
}

/// The longest prefix of `text` that has at most `max` bytes.
pub(crate) fn prefix(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Like [`owned`], for bytes.
pub(crate) fn owned_bytes(bytes: &[u8]) -> Bytes<'static> {
    Bytes::from(bytes.to_vec())
}

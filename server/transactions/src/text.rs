//! Strings that several parts of the state share.

use alloc::sync::Arc;
use muster_codec::Str;

pub type Text = Arc<str>;

/// An owned copy for an output, which outlives the borrow of the state.
pub(crate) fn owned(text: &str) -> Str<'static> {
    Str::Owned(text.into())
}

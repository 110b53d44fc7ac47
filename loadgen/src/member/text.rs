//! The strings of requests.

use muster_codec::Str;

/// A copy of a string, for a request.
pub(super) fn text(text: &str) -> Str<'static> {
    Str::Owned(text.to_owned())
}

//! Copies parts of a request, so that the copies do not borrow from the request's frame.

use muster_codec::Str;

pub(super) fn all<T, O>(list: Vec<T>, owned: impl FnMut(T) -> O) -> Vec<O> {
    list.into_iter().map(owned).collect()
}

pub(super) fn text(text: Str<'_>) -> Str<'static> {
    Str::Owned(text.into_owned())
}

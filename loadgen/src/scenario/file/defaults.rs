//! The defaults of keys.

use crate::scenario::values::{Amount, Span};

pub(super) fn one<N: From<u8>>() -> N {
    N::from(1)
}

pub(super) fn yes() -> bool {
    true
}

pub(super) fn all() -> Amount {
    Amount::ALL
}

pub(super) fn hundred_millis() -> Span {
    Span::from_millis(100)
}

pub(super) fn one_second() -> Span {
    Span::from_secs(1)
}

pub(super) fn three_seconds() -> Span {
    Span::from_secs(3)
}

pub(super) fn forty_five_seconds() -> Span {
    Span::from_secs(45)
}

pub(super) fn one_minute() -> Span {
    Span::from_secs(60)
}

pub(super) fn ten_minutes() -> Span {
    Span::from_secs(600)
}

//! The standing of a connection. A connection comes first if its recent requests and answers were
//! short: the shard receives from it, and handles its input, before it does so for others. So a
//! client with short requests hardly waits for clients with long requests, or for clients that the
//! shard does not know yet. While it waits, such clients get at most one slice in five
//! (`run_queue.rs`).
//!
//! A request is short if it and its answer have at most 16 KiB, and if it is handled within a
//! slice. After eight short requests in a row, a connection comes first. After a single longer
//! request or answer, it no longer does. A client that is not authenticated never comes first.

/// The number of modest inputs in a row after which a connection comes first. An input is what was
/// handled in one go: usually a single request.
const MODEST_MIN: u8 = 8;

/// The limit up to which an input is modest. It applies to its bytes, to the bytes that were
/// received but not handled yet, and to the answers that wait to be sent.
const MODEST_BYTES_MAX: usize = 16 << 10;

/// The part of a connection's input that was handled at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handled {
    /// The bytes of the handled requests, and the received bytes that are not handled yet.
    pub(super) bytes: usize,
    pub(super) left: usize,
    /// The bytes of answers that wait to be sent.
    pub(super) output: usize,
    /// Whether the connection used up its slice.
    pub(super) is_slice_over: bool,
}

/// The number of modest inputs in a row, up to [`MODEST_MIN`].
#[derive(Debug, Default)]
pub(super) struct Standing {
    modest: u8,
}

impl Standing {
    pub(super) fn comes_first(&self) -> bool {
        self.modest >= MODEST_MIN
    }

    /// Notes handled input. True if the connection begins or ceases to come first.
    pub(super) fn note(&mut self, handled: Handled) -> bool {
        let came_first = self.comes_first();
        let Handled { bytes, left, output, is_slice_over } = handled;
        if bytes.max(left).max(output) > MODEST_BYTES_MAX || is_slice_over {
            self.modest = 0;
        } else if bytes > 0 {
            self.modest = MODEST_MIN.min(self.modest + 1);
        }
        self.comes_first() != came_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Handled = Handled { bytes: 100, left: 0, output: 50, is_slice_over: false };

    /// A connection that has just begun to come first.
    fn first() -> Standing {
        let mut standing = Standing::default();
        for _ in 1..MODEST_MIN {
            assert!(!standing.note(SHORT) && !standing.comes_first());
        }
        assert!(standing.note(SHORT) && standing.comes_first());
        standing
    }

    #[test]
    fn modest_requests_bring_a_connection_forward_and_keep_it_there() {
        let mut standing = first();
        assert!((0..1_000).all(|_| !standing.note(SHORT)) && standing.comes_first());
    }

    #[test]
    fn one_that_is_not_modest_ends_it() {
        for much in [
            Handled { bytes: MODEST_BYTES_MAX + 1, ..SHORT },
            Handled { bytes: 0, left: MODEST_BYTES_MAX + 1, ..SHORT },
            Handled { output: MODEST_BYTES_MAX + 1, ..SHORT },
            Handled { is_slice_over: true, ..SHORT },
        ] {
            let mut standing = first();
            assert!(standing.note(much) && !standing.comes_first(), "{much:?}");
            assert!(!standing.note(SHORT), "one alone does not bring it back");
        }
    }

    #[test]
    fn bytes_that_are_no_request_yet_count_for_nothing() {
        let mut standing = Standing::default();
        assert!((0..100).all(|_| !standing.note(Handled { bytes: 0, left: 9, ..SHORT })));
        assert!(!standing.comes_first());
    }
}

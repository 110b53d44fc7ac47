//! Responses of coordinators: how answers to the parts of a request are merged, and the errors for
//! a request whose records were not written.

use muster_codec::{ErrorCode, Str};

/// A response of a coordinator.
pub(super) trait CoordinatorAnswer {
    /// Adds the answer to another part of the same request.
    fn merge(&mut self, other: Self);

    /// Sets `error` in the results, because the records of the request were not written.
    fn fail(&mut self, error: ErrorCode);
}

/// Defines a function that merges two responses of one of these APIs.
macro_rules! merge_responses {
    ($($name:ident),*) => {
        /// Adds the answer to another part of the same request.
        ///
        /// # Panics
        /// If the responses are of different APIs.
        pub(crate) fn merge<'r>(response: &mut Response<'r>, other: Response<'r>) {
            match (response, other) {
                $((Response::$name(body), Response::$name(other)) => body.merge(other),)*
                (response, other) => {
                    let (one, other) = (response.api_key(), other.api_key());
                    unreachable!("{one:?} and {other:?} are answers to one request")
                }
            }
        }
    };
}

pub(super) use merge_responses;

/// Copies a name of a request for its answer.
pub(super) fn owned(text: &Str<'_>) -> Str<'static> {
    Str::Owned(text.to_string())
}

//! The result of authorizing a request.

use muster_codec::Response;

/// The result of authorizing a request.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The whole request is allowed, and its answer does not change.
    Passed,
    /// The whole request is allowed; the answer shows only what the client may see.
    Restricted,
    /// Part of the request is allowed, and remains. This response refuses the denied part.
    InPart(Response<'static>),
    /// The whole request is denied with this response.
    Refused(Response<'static>),
}

impl Verdict {
    /// The verdict on a request that is allowed or denied as a whole.
    pub(in crate::dispatch) fn whole<R: Into<Response<'static>>, E>(
        allowed: Result<(), E>,
        refused: impl FnOnce(E) -> R,
    ) -> Self {
        match allowed {
            Ok(()) => Self::Passed,
            Err(error) => Self::Refused(refused(error).into()),
        }
    }

    /// The verdict on a request whose parts are checked one by one. `denied` refuses the denied
    /// parts. `is_rest_empty` is whether no other part remains.
    pub(in crate::dispatch) fn of_parts<R: Into<Response<'static>>>(
        denied: Option<R>,
        is_rest_empty: bool,
    ) -> Self {
        match denied {
            None => Self::Passed,
            Some(refused) if is_rest_empty => Self::Refused(refused.into()),
            Some(refused) => Self::InPart(refused.into()),
        }
    }

    /// Checks the parts of a request if the whole request passed.
    pub(in crate::dispatch) fn then(self, parts: impl FnOnce() -> Self) -> Self {
        if let Self::Passed = self { parts() } else { self }
    }

    /// The same verdict, but with a restricted answer.
    pub(in crate::dispatch) fn restricted(self) -> Self {
        if let Self::Passed = self { Self::Restricted } else { self }
    }
}

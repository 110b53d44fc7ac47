//! Changes of answers. What to change is decided when the request arrives: refusals of its denied
//! parts are added to the answer, and results that the client may not see are removed.

use muster_codec::Response;
use std::fmt;

/// A change of the answer to a request. It is decided when the request arrives.
pub(crate) trait Amend: fmt::Debug + Send {
    /// Changes the answer, or a part of it.
    fn amend(&mut self, response: &mut Response<'_>, is_last: bool);

    /// The approximate number of bytes that the change holds.
    fn held(&self) -> usize;
}

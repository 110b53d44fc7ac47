//! The name of a client.

/// The client of a member, or the one that sent a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Client<'r> {
    pub(crate) id: &'r str,
    pub(crate) host: &'r str,
}

//! Changes of answers that are decided when the request comes.

use super::connections::Connections;
use crate::event::ConnectionId;
use muster_codec::Response;
use muster_coordinator::RequestId;
use std::fmt;

/// A change of the answer to a request, decided when the request came.
pub(crate) trait Amend: fmt::Debug + Send {
    /// Changes the answer, or a part of it.
    fn amend(&mut self, response: &mut Response<'_>, is_last: bool);
}

impl Connections {
    /// Has the answer to a request changed before it leaves.
    pub(crate) fn amend(&mut self, request: RequestId, amendment: Box<dyn Amend>) {
        if let Some(connection) = self.get_mut(ConnectionId(request.connection)) {
            connection.amend(request.sequence, amendment);
        }
    }

    /// The changed answer to a request; None if it stays as it is.
    pub(super) fn amended<'r>(
        &mut self,
        request: RequestId,
        response: &Response<'r>,
    ) -> Option<Response<'r>> {
        let connection = self.get_mut(ConnectionId(request.connection))?;
        let mut amendment = connection.take_amendment(request.sequence)?;
        let mut response = response.clone();
        amendment.amend(&mut response, true);
        Some(response)
    }
}

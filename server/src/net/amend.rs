//! Changes of answers that are decided when the request comes.

use super::account::Kind;
use super::connection::Connection;
use super::connections::Connections;
use crate::event::ConnectionId;
use muster_codec::Response;
use muster_coordinator::RequestId;
use std::fmt;

/// A change of the answer to a request, decided when the request came.
pub(crate) trait Amend: fmt::Debug + Send {
    /// Changes the answer, or a part of it.
    fn amend(&mut self, response: &mut Response<'_>, is_last: bool);

    /// The bytes that it holds, about.
    fn held(&self) -> usize;
}

/// Bytes of the answers to denied parts of requests that wait for the other parts: a client may
/// have a Fetch with many denied topics wait for the records of one.
pub(crate) const AMENDMENTS_BYTES_MAX: usize = 32 << 20;

impl Connections {
    /// Has the answer to a request changed before it leaves.
    ///
    /// # Errors
    /// Why the connection is to be closed: too many bytes wait.
    pub(crate) fn amend(
        &mut self,
        request: RequestId,
        amendment: Box<dyn Amend>,
    ) -> Result<(), String> {
        let held = amendment.held();
        if self.account.held(Kind::Amendments) + held > AMENDMENTS_BYTES_MAX {
            return Err("the refusals that wait for parts of requests take too much \
                        (AMENDMENTS_BYTES_MAX)"
                .to_owned());
        }
        let Some(connection) = self.get_mut(ConnectionId(request.connection)) else {
            return Ok(());
        };
        if connection.amend(request.sequence, amendment) {
            self.account.take(Kind::Amendments, held);
        }
        Ok(())
    }

    /// Forgets the change of an answer that needs none.
    pub(super) fn forget_amendment(&mut self, request: RequestId) {
        let connection = self.get_mut(ConnectionId(request.connection));
        let amendment = connection.and_then(|it| it.take_amendment(request.sequence));
        let held = amendment.map_or(0, |amendment| amendment.held());
        self.account.release(Kind::Amendments, held);
    }

    /// Forgets the changes that a connection's answers wait for.
    pub(super) fn drop_amendments(&mut self, connection: &Connection) {
        self.account.release(Kind::Amendments, connection.held_amendments());
    }

    /// The changed answer to a request; None if it stays as it is.
    pub(super) fn amended<'r>(
        &mut self,
        request: RequestId,
        response: &Response<'r>,
    ) -> Option<Response<'r>> {
        let connection = self.get_mut(ConnectionId(request.connection))?;
        let mut amendment = connection.take_amendment(request.sequence)?;
        self.account.release(Kind::Amendments, amendment.held());
        let mut response = response.clone();
        amendment.amend(&mut response, true);
        Some(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::event::ListenerIndex;
    use crate::net::Limits;
    use muster_codec::ApiKey;
    use muster_codec::messages::HeartbeatResponse;

    #[derive(Debug)]
    struct Holds(usize);

    impl Amend for Holds {
        fn amend(&mut self, _: &mut Response<'_>, _: bool) {}

        fn held(&self) -> usize {
            self.0
        }
    }

    #[test]
    fn what_waits_is_limited_and_counted_until_it_is_answered_or_closed() {
        let mut connections = Connections::unthrottled(Limits::of(&Config::default()));
        let id = ConnectionId::new(0, 1);
        connections.open(id, ListenerIndex::FIRST, "/10.0.0.1".into(), 0).unwrap();
        let most = AMENDMENTS_BYTES_MAX;
        let begin = |connections: &mut Connections, bytes| {
            let request = connections.begin(id, ApiKey::Heartbeat, 1, 4);
            connections.amend(request, Box::new(Holds(bytes))).map(|()| request)
        };
        let held = |connections: &Connections| connections.account().held(Kind::Amendments);
        let [first, skipped, _] = [most - 2, 1, 1].map(|it| begin(&mut connections, it).unwrap());
        assert!(begin(&mut connections, 1).is_err());
        assert_eq!(held(&connections), most);
        connections.answer_now(first, &HeartbeatResponse::default().into());
        connections.skip(skipped);
        assert_eq!(held(&connections), 1);
        connections.close(id);
        assert_eq!(held(&connections), 0);
    }
}

//! Changes of answers. What to change is decided when the request arrives: refusals of its denied
//! parts are added to the answer, and results that the client may not see are removed.

use super::account::Kind;
use super::connection::Connection;
use super::connections::Connections;
use crate::net::ConnectionId;
use muster_codec::Response;
use muster_coordinator::RequestId;
use muster_fairness::Address;
use std::fmt;

/// A change of the answer to a request. It is decided when the request arrives.
pub(crate) trait Amend: fmt::Debug + Send {
    /// Changes the answer, or a part of it.
    fn amend(&mut self, response: &mut Response<'_>, is_last: bool);

    /// The approximate number of bytes that the change holds.
    fn held(&self) -> usize;
}

/// The limit on bytes of answers to denied parts of requests that wait for the other parts. For
/// example, a Fetch with many denied topics may wait for records of a single granted topic.
pub(crate) const AMENDMENTS_BYTES_MAX: usize = 32 << 20;

impl Connections {
    /// Changes the answer to a request before it leaves.
    ///
    /// # Errors
    /// The reason for closing the connection: too many bytes wait.
    pub(crate) fn amend(
        &mut self,
        request: RequestId,
        amendment: Box<dyn Amend>,
    ) -> Result<(), String> {
        let held = amendment.held();
        let Some(connection) = self.get(ConnectionId(request.connection)) else {
            return Ok(());
        };
        let address = connection.address;
        self.amendments.admit(address, held, AMENDMENTS_BYTES_MAX).map_err(|exceeded| {
            let reason = exceeded.words();
            format!(
                "the refusals that wait for parts of requests take too much \
                 (AMENDMENTS_BYTES_MAX: {reason})"
            )
        })?;
        let Some(connection) = self.get_mut(ConnectionId(request.connection)) else {
            return Ok(());
        };
        if connection.amend(request.sequence, amendment) {
            self.account.take(Kind::Amendments, held);
            self.amendments.take(address, held);
        }
        Ok(())
    }

    /// Drops the registered change of an answer, if there is one: the answer leaves unchanged, or
    /// there is none.
    pub(super) fn forget_amendment(&mut self, request: RequestId) {
        let connection = self.get_mut(ConnectionId(request.connection));
        let Some(connection) = connection else { return };
        let address = connection.address;
        let amendment = connection.take_amendment(request.sequence);
        let held = amendment.map_or(0, |amendment| amendment.held());
        self.release_amendments(address, held);
    }

    /// Drops all registered changes of a connection's answers.
    pub(super) fn drop_amendments(&mut self, connection: &Connection) {
        self.release_amendments(connection.address, connection.held_amendments());
    }

    fn release_amendments(&mut self, address: Address, held: usize) {
        self.account.release(Kind::Amendments, held);
        self.amendments.release(address, held);
    }

    /// The changed answer to a request; None if it stays as it is.
    pub(super) fn amended<'r>(
        &mut self,
        request: RequestId,
        response: &Response<'r>,
    ) -> Option<Response<'r>> {
        let connection = self.get_mut(ConnectionId(request.connection))?;
        let address = connection.address;
        let mut amendment = connection.take_amendment(request.sequence)?;
        self.release_amendments(address, amendment.held());
        let mut response = response.clone();
        amendment.amend(&mut response, true);
        Some(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::config::ListenerIndex;
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
        let most = AMENDMENTS_BYTES_MAX / 8 * 7;
        let begin = |connections: &mut Connections, id, bytes| {
            let request = connections.begin(id, ApiKey::Heartbeat, 1, 4);
            connections.amend(request, Box::new(Holds(bytes))).map(|()| request)
        };
        let held = |connections: &Connections| connections.account().held(Kind::Amendments);
        let [first, skipped, _] =
            [most - 2, 1, 1].map(|it| begin(&mut connections, id, it).unwrap());
        assert!(begin(&mut connections, id, 1).is_err());
        assert_eq!(held(&connections), most);
        let other = ConnectionId::new(1, 1);
        connections.open(other, ListenerIndex::FIRST, "/10.0.0.2".into(), 0).unwrap();
        begin(&mut connections, other, most / 14).unwrap();
        assert!(begin(&mut connections, other, 1).is_err(), "half of what was left");
        connections.close(other);
        connections.answer_now(first, &HeartbeatResponse::default().into());
        connections.skip(skipped);
        assert_eq!(held(&connections), 1);
        connections.close(id);
        assert_eq!(held(&connections), 0);
    }
}

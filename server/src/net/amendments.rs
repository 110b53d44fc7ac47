//! The registered changes of answers, and the bytes that they hold, by address.

use super::account::{Account, Kind};
use super::amend::Amend;
use super::connection::Connection;
use super::limits::AMENDMENTS_BYTES_MAX;
use muster_fairness::{Address, Holders};

/// The bytes of the changes that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Amendments {
    by_address: Holders,
}

impl Amendments {
    /// Registers a change of the answer to a request.
    ///
    /// # Errors
    /// The reason for closing the connection: too many bytes wait.
    pub(super) fn add(
        &mut self,
        connection: &mut Connection,
        sequence: u64,
        amendment: Box<dyn Amend>,
        account: &mut Account,
    ) -> Result<(), String> {
        let (address, held) = (connection.address, amendment.held());
        self.by_address.admit(address, held, AMENDMENTS_BYTES_MAX).map_err(|exceeded| {
            let reason = exceeded.words();
            format!(
                "the refusals that wait for parts of requests take too much \
                 (AMENDMENTS_BYTES_MAX: {reason})"
            )
        })?;
        if connection.requests.amend(sequence, amendment) {
            account.take(Kind::Amendments, held);
            self.by_address.take(address, held);
        }
        Ok(())
    }

    /// Takes the registered change of an answer, if there is one.
    #[inline]
    pub(super) fn take(
        &mut self,
        connection: &mut Connection,
        sequence: u64,
        account: &mut Account,
    ) -> Option<Box<dyn Amend>> {
        let amendment = connection.requests.take_amendment(sequence)?;
        self.release(connection.address, amendment.held(), account);
        Some(amendment)
    }

    /// Drops all registered changes of a connection's answers.
    pub(super) fn closed(&mut self, connection: &Connection, account: &mut Account) {
        self.release(connection.address, connection.requests.held_amendments(), account);
    }

    fn release(&mut self, address: Address, held: usize, account: &mut Account) {
        account.release(Kind::Amendments, held);
        self.by_address.release(address, held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ListenerIndex};
    use crate::net::connections::Connections;
    use crate::net::{ConnectionId, Limits};
    use muster_codec::messages::HeartbeatResponse;
    use muster_codec::{ApiKey, Response};

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

//! Limits the connections to the admin listener, because each connection has a thread. Only some of
//! the places may be used by requests other than health checks, so that there is always a place for
//! a health check. A connection may be closed to make way for a new one while it has no request, or
//! when its client only has to read the answer.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of connections. If there is one more, the oldest of those that are not being
/// answered is closed.
const CONNECTIONS_MAX: usize = 32;

/// The maximum number of requests that are answered at once, apart from health checks.
pub(super) const REQUESTS_MAX: usize = 8;

/// The maximum number of threads. It is higher than that of connections, because the thread of a
/// closed connection ends a moment later.
const THREADS_MAX: usize = 2 * CONNECTIONS_MAX;

/// How long a new connection waits for a thread to end.
const PATIENCE: Duration = Duration::from_secs(1);

const _: () = assert!(REQUESTS_MAX < CONNECTIONS_MAX);

/// The places of all connections.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    taken: Mutex<Taken>,
    /// Notified when a thread has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    /// The open connections, oldest first.
    connections: Vec<Connection>,
    /// The number of the next connection.
    next: u64,
    threads: usize,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    stream: Arc<TcpStream>,
    work: Work,
}

/// The kind of request that is being answered for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    None,
    Health,
    Request,
}

/// The place of a connection. Dropping it, even in a panic, frees the place.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    number: u64,
}

/// The permission to answer a request, until it is dropped.
#[derive(Debug)]
pub(super) struct Working<'p>(&'p Place);

impl Places {
    /// Returns a place for a new connection, or None if the connection must be closed. If there are
    /// too many threads, waits up to [`PATIENCE`] for one to end. Without this wait, a burst of
    /// connections that close each other could keep a health check out.
    pub(super) fn enter(&self, stream: &Arc<TcpStream>) -> Option<Place> {
        let are_too_many = |taken: &mut Taken| taken.threads >= THREADS_MAX;
        let waited = self.0.ended.wait_timeout_while(self.lock(), PATIENCE, are_too_many);
        let (mut taken, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return None;
        }
        if taken.connections.len() >= CONNECTIONS_MAX {
            taken.give_up_oldest()?;
        }
        let number = taken.next;
        (taken.next, taken.threads) = (number + 1, taken.threads + 1);
        let (stream, work) = (Arc::clone(stream), Work::None);
        taken.connections.push(Connection { number, stream, work });
        Some(Place { places: self.clone(), number })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // Each change is a single step, so a panic cannot leave one half done.
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Closes the oldest connection that is not being answered; None if there is none.
    fn give_up_oldest(&mut self) -> Option<()> {
        let place = self.connections.iter().position(|it| it.work == Work::None)?;
        let oldest = self.connections.remove(place);
        // The connection's thread notices the shutdown. An error means that the client has closed
        // it already.
        let _ = oldest.stream.shutdown(Shutdown::Both);
        Some(())
    }

    fn set(&mut self, number: u64, work: Work) -> Option<()> {
        let connection = self.connections.iter_mut().find(|it| it.number == number)?;
        connection.work = work;
        Some(())
    }
}

impl Place {
    /// Begins to answer a health check; None if the connection was closed to make way for another.
    pub(super) fn health(&self) -> Option<Working<'_>> {
        self.places.lock().set(self.number, Work::Health).map(|()| Working(self))
    }

    /// Begins to answer another request; None if too many are being answered, or if the connection
    /// was closed to make way for another.
    pub(super) fn request(&self) -> Option<Working<'_>> {
        let mut taken = self.places.lock();
        let requests = taken.connections.iter().filter(|it| it.work == Work::Request).count();
        if requests >= REQUESTS_MAX {
            return None;
        }
        taken.set(self.number, Work::Request).map(|()| Working(self))
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.places.lock().set(self.0.number, Work::None);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.threads -= 1;
        taken.connections.retain(|it| it.number != self.number);
        self.places.0.ended.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// The server's and the client's end of a new connection.
    fn connection(listener: &TcpListener) -> (Arc<TcpStream>, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(listener.accept().unwrap().0), client)
    }

    fn is_closed(mut client: &TcpStream) -> bool {
        client.set_nonblocking(true).unwrap();
        matches!(client.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_oldest_idle_connection_gives_way_and_one_that_is_answered_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let places = Places::default();
        let all: Vec<_> = (0..CONNECTIONS_MAX).map(|_| connection(&listener)).collect();
        let held: Vec<Place> = all.iter().map(|it| places.enter(&it.0).unwrap()).collect();
        let working: Vec<_> = held[..REQUESTS_MAX].iter().map(|it| it.request().unwrap()).collect();
        assert!(held[REQUESTS_MAX].request().is_none(), "enough are answered");
        let health = held[REQUESTS_MAX].health().unwrap();
        let new = connection(&listener);
        let place = places.enter(&new.0).unwrap();
        let closed: Vec<usize> = (0..all.len()).filter(|place| is_closed(&all[*place].1)).collect();
        assert_eq!(closed, [REQUESTS_MAX + 1], "the oldest for which nothing is done");
        assert!(held[REQUESTS_MAX + 1].health().is_none(), "it was given up");

        // A place is only free again once its thread has ended.
        drop((working, health));
        assert!(place.request().is_some());
        let taken = || {
            let taken = places.lock();
            (taken.connections.len(), taken.threads)
        };
        drop(held);
        assert_eq!(taken(), (1, 1));
        drop(place);
        assert_eq!(taken(), (0, 0));
    }

    #[test]
    fn threads_have_a_limit_while_connections_that_gave_way_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let places = Places::default();
        let connection = connection(&listener).0;
        let held: Vec<_> = (0..=THREADS_MAX).map(|_| places.enter(&connection)).collect();
        assert_eq!(held.iter().flatten().count(), THREADS_MAX);
    }

    #[test]
    fn a_connection_waits_until_one_that_gave_way_has_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let places = Places::default();
        let connection = connection(&listener).0;
        let mut held: Vec<_> = (0..THREADS_MAX).map(|_| places.enter(&connection)).collect();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| places.enter(&connection));
            drop(held.pop());
            assert!(waiting.join().unwrap().is_some());
        });
    }
}

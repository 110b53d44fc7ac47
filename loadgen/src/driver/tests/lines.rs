//! Connections whose core is busy with other work.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;

use super::super::arrival::tests::stamping;
use super::super::line::{self, End, Line, Owner, ReadAt};
use super::super::runtime::Tasks;
use super::*;
use crate::time::Time;

const BUSY: Duration = Duration::from_millis(30);

/// Two connections. While the core handles a frame of the first one, a frame of the second arrives.
struct Busy {
    clock: Clock,
    lines: [Line; 2],
    turn: Sender<()>,
    arrived: Receiver<()>,
    /// When the request of the second connection was queued. `written` is when it was written.
    queued: Time,
    written: Option<Time>,
    waited: [Option<Duration>; 2],
}

impl Owner for Busy {
    fn line(&mut self, at: usize) -> &mut Line {
        &mut self.lines[at]
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn written(&mut self, at: usize, began: Time) {
        assert_eq!(at, 1, "only the second connection has a request");
        self.written = Some(began);
    }

    fn turn_ended(&mut self, _began: Time) {}

    fn frame(&mut self, at: usize, _frame: &[u8], read: ReadAt) -> Result<(), Malformed> {
        self.waited[at] = read.waited;
        if at == 0 {
            self.lines[1].queue().extend_from_slice(&framed(b"request"));
            self.lines[1].wake();
            self.queued = self.clock.now();
            self.turn.send(()).unwrap();
            self.arrived.recv().unwrap();
            sleep(BUSY);
        } else {
            self.lines.iter_mut().for_each(|line| line.end(End::Close));
        }
        Ok(())
    }
}

/// A server with two connections. While the core is busy with a frame of the first one, the server
/// sends a frame on the second.
fn two_connections() -> (String, Sender<()>, Receiver<()>) {
    let (turn, has_turn) = channel();
    let (sent, arrived) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let [mut first, mut second] = [(); 2].map(|()| listener.accept().unwrap().0);
        first.write_all(&framed(b"first")).unwrap();
        has_turn.recv().unwrap();
        second.write_all(&framed(b"second")).unwrap();
        sent.send(()).unwrap();
        assert_eq!(receive(&mut second).as_deref(), Some(&b"request"[..]));
        // The server must not close before the client. Otherwise the kernel appends the server's
        // FIN to the bytes that the client has not read, and they get the stamp of the FIN.
        assert_eq!(receive(&mut second), None);
    });
    (address, turn, arrived)
}

#[test]
fn what_waits_for_a_busy_core_is_known() {
    let _stamping = stamping();
    let (address, turn, arrived) = two_connections();
    let (clock, lines) = (Clock::start(), [Line::default(), Line::default()]);
    let (queued, written, waited) = (Time::ZERO, None, [None; 2]);
    let owner = Busy { clock, lines, turn, arrived, queued, written, waited };
    let owner = Rc::new(RefCell::new(owner));
    let of_tasks = Rc::clone(&owner);
    Runtime::new().unwrap().run(async move {
        let dialer = Dialer::new(Arc::new(target(&address)), None, Default::default());
        let (host, port) = host_and_port(&address).unwrap();
        let mut transports = Vec::new();
        for _ in 0..2 {
            transports.push(dialer.open(host, port).await.unwrap().into_transport());
        }
        let tasks = Tasks::default();
        for (at, transport) in transports.into_iter().enumerate() {
            let (owner, buffers) = (Rc::clone(&of_tasks), Rc::clone(&dialer.buffers));
            tasks.spawn(async move {
                line::serve(&*owner, at, transport, &buffers).await;
            });
        }
        while of_tasks.borrow().waited[1].is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tasks.join_ended();
        }
    });
    let owner = owner.borrow();
    let waited = owner.waited[1].expect("Linux stamps what arrives");
    assert!(waited >= BUSY, "the answer waited for {waited:?}");
    let written = owner.written.expect("the request was written");
    assert!(written.since(owner.queued) >= BUSY, "{written} after {}", owner.queued);
}

//! The times at which bytes arrived. The kernel stamps bytes as it receives them, as a packet
//! capture would. A load core that is busy, or waits for its CPU, reads them later.

#[cfg(target_os = "linux")]
pub(super) use self::stamped::Receiver;
#[cfg(not(target_os = "linux"))]
pub(super) use self::unstamped::Receiver;

use std::time::Duration;

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Received {
    pub(super) length: usize,
    /// How long the last of the bytes had waited to be read. `None` if the kernel does not say.
    pub(super) waited: Option<Duration>,
}

#[cfg(target_os = "linux")]
mod stamped {
    use std::io::{self, IoSliceMut};
    use std::os::fd::{AsFd, AsRawFd};
    use std::time::{Duration, SystemTime};

    use nix::cmsg_space;
    use nix::sys::socket::{
        ControlMessageOwned, MsgFlags, RecvMsg, recvmsg, setsockopt, sockopt::ReceiveTimestampns,
    };
    use nix::sys::time::TimeSpec;

    use super::Received;

    /// Reads from the sockets of a core.
    pub(in crate::driver) struct Receiver(Vec<u8>);

    impl Default for Receiver {
        fn default() -> Self {
            Self(cmsg_space!(TimeSpec))
        }
    }

    impl Receiver {
        /// Requests stamps on this socket. A kernel without stamps is not an error:
        /// `Received::waited` is `None` then.
        pub(in crate::driver) fn prepare(socket: &impl AsFd) {
            let _ = setsockopt(socket, ReceiveTimestampns, &true);
        }

        /// # Errors
        /// The errors of the socket, such as `WouldBlock`.
        pub(in crate::driver) fn receive(
            &mut self,
            socket: &impl AsRawFd,
            into: &mut [u8],
        ) -> io::Result<Received> {
            let mut into = [IoSliceMut::new(into)];
            let flags = MsgFlags::empty();
            let read: RecvMsg<'_, '_, ()> =
                recvmsg(socket.as_raw_fd(), &mut into, Some(&mut self.0), flags)?;
            Ok(Received { length: read.bytes, waited: waited(&read) })
        }
    }

    /// How long the bytes waited. The kernel's stamp is a time of the wall clock, which may be set
    /// after that. If it was set back, the stamp is in the future, and the result is `None`. If it
    /// was set forward, the result is too long, but it never counts as more than the time that the
    /// request took.
    fn waited(read: &RecvMsg<'_, '_, ()>) -> Option<Duration> {
        let stamp = read.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        })?;
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + stamp).ok()
    }
}

#[cfg(any(test, not(target_os = "linux")))]
mod unstamped {
    use std::io;

    use rustix::fd::AsFd;

    use super::Received;

    /// Reads from the sockets of a core.
    #[derive(Default)]
    pub(in crate::driver) struct Receiver;

    impl Receiver {
        pub(in crate::driver) fn prepare(_: &impl AsFd) {}

        /// # Errors
        /// The errors of the socket, such as `WouldBlock`.
        pub(in crate::driver) fn receive(
            &mut self,
            socket: &impl AsFd,
            into: &mut [u8],
        ) -> io::Result<Received> {
            Ok(Received { length: rustix::io::read(socket, into)?, waited: None })
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::thread::sleep;

    use super::*;

    /// Returns a socket with stamps, which a test keeps open. The kernel starts to stamp shortly
    /// after a first socket requests stamps, and stops when the last socket that requested them is
    /// closed.
    pub(in crate::driver) fn stamping() -> TcpStream {
        let ((client, mut server), mut into) = (pair(), [0; 64]);
        Receiver::prepare(&client);
        let mut stamps = || {
            server.write_all(b"x").unwrap();
            sleep(Duration::from_millis(5));
            let received = Receiver::default().receive(&client, &mut into).unwrap();
            received.waited.is_some_and(|waited| waited >= Duration::from_millis(5))
        };
        assert!((0..1_000).any(|_| stamps()), "Linux stamps what arrives");
        client
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    /// The bytes arrive at once. The test itself delays the read, by sleeping.
    #[test]
    fn bytes_that_were_not_read_at_once_have_waited() {
        let _stamping = stamping();
        let ((client, mut server), mut into) = (pair(), [0; 64]);
        Receiver::prepare(&client);
        server.write_all(b"answer").unwrap();
        sleep(Duration::from_millis(40));
        let received = Receiver::default().receive(&client, &mut into).unwrap();
        assert_eq!(&into[..received.length], b"answer");
        let waited = received.waited.expect("Linux stamps what arrives");
        assert!(waited >= Duration::from_millis(40), "{waited:?}");
        assert!(waited < Duration::from_secs(30), "{waited:?}");
    }

    #[test]
    fn without_stamps_the_wait_is_unknown() {
        let ((client, mut server), mut into) = (pair(), [0; 64]);
        unstamped::Receiver::prepare(&client);
        server.write_all(b"answer").unwrap();
        let received = unstamped::Receiver.receive(&client, &mut into).unwrap();
        assert_eq!(received, Received { length: 6, waited: None });
        client.set_nonblocking(true).unwrap();
        let empty = unstamped::Receiver.receive(&client, &mut into).unwrap_err();
        assert_eq!(empty.kind(), std::io::ErrorKind::WouldBlock);
    }
}

//! Operations that either complete immediately or do nothing. They never wait for a disk or a peer.
//!
//! The sockets of a ring must be blocking: if a socket is non-blocking and full, io_uring reports
//! EAGAIN instead of waiting. Since sendfile(2) has no flags, the socket is made non-blocking
//! during that call. This affects no operation of the ring: the kernel carries them out only when
//! the same thread calls `io_uring_enter`.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use crate::file::File;

/// A socket. `waits` says whether it is blocking: then an operation waits unless a flag prevents
/// that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Socket {
    pub(crate) fd: RawFd,
    pub(crate) waits: bool,
}

/// Reads a part of a file from the page cache. Returns false if the part is not completely in the
/// page cache, if it extends beyond the end of the file, or if the file system cannot read in this
/// way.
///
/// Calling preadv2 with RWF_NOWAIT is not enough: if a page is missing, the kernel starts to read
/// it, and waits if the disk's queue is full. So `is_cached` is called first.
pub(crate) fn read(file: &File, offset: u64, buf: &mut [u8]) -> bool {
    if !file.is_cached(offset, buf.len() as u32) {
        return false;
    }
    let part = libc::iovec { iov_base: buf.as_mut_ptr().cast(), iov_len: buf.len() };
    let fd = file.std().as_raw_fd();
    // SAFETY: the only part is `buf`.
    let read =
        unsafe { libc::preadv2(fd, &raw const part, 1, offset as libc::off_t, libc::RWF_NOWAIT) };
    read == buf.len() as isize
}

/// Sends as many bytes as the socket accepts without blocking. The caller sends more output
/// afterwards, so MSG_MORE is set.
///
/// # Errors
/// The errors of send(2).
pub(crate) fn send(socket: Socket, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;
    // SAFETY: pointer and length are those of a slice.
    sent_bytes(unsafe { libc::send(socket.fd, bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// Sends a part of a file: as many bytes as the socket accepts without blocking. The bytes are not
/// copied. None if the part is not in the page cache, or cannot be sent with sendfile(2).
pub(crate) fn send_file(socket: Socket, file: &File, offset: u64, len: u32) -> Option<usize> {
    if !file.is_cached(offset, len) {
        return None;
    }
    let _non_blocking = if socket.waits { Some(NonBlocking::set(socket.fd).ok()?) } else { None };
    let (fd, mut offset) = (file.std().as_raw_fd(), offset as libc::off_t);
    // SAFETY: the pointer is to the offset. (A closed socket raises no signal, because Rust's
    // runtime ignores SIGPIPE.)
    let sent = unsafe { libc::sendfile(socket.fd, fd, &raw mut offset, len as usize) };
    match sent_bytes(sent) {
        // The file ends before or where the part begins. The ring's later read reports that.
        Ok(0) if sent == 0 => None,
        result => result.ok(),
    }
}

/// Converts the result of a non-blocking send. A full socket buffer counts as 0 bytes sent.
fn sent_bytes(result: isize) -> io::Result<usize> {
    if result >= 0 {
        return Ok(result as usize);
    }
    let error = io::Error::last_os_error();
    let is_full = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
    if is_full { Ok(0) } else { Err(error) }
}

/// Makes a socket non-blocking until the value is dropped.
struct NonBlocking(RawFd);

impl NonBlocking {
    fn set(socket: RawFd) -> io::Result<Self> {
        match set_non_blocking(socket, 1) {
            0 => Ok(Self(socket)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for NonBlocking {
    fn drop(&mut self) {
        set_non_blocking(self.0, 0);
    }
}

fn set_non_blocking(socket: RawFd, mut on: libc::c_int) -> libc::c_int {
    // SAFETY: the pointer is to the number.
    unsafe { libc::ioctl(socket, libc::FIONBIO, &raw mut on) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::UnixStream;

    fn file(bytes: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        File::from_std(file)
    }

    fn socket(stream: &UnixStream) -> Socket {
        Socket { fd: stream.as_raw_fd(), waits: true }
    }

    #[test]
    fn what_is_cached_is_read_and_what_is_not_there_is_not() {
        let (file, mut buf) = (file(b"0123456789"), [0; 4]);
        assert!(read(&file, 6, &mut buf));
        assert_eq!(&buf, b"6789");
        assert!(!read(&file, 7, &mut buf));
    }

    #[test]
    fn a_file_is_sent_as_far_as_there_is_room_and_the_socket_blocks_as_before() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (socket, file) = (socket(&ours), file(&[7; 4 << 20]));
        let sent = send_file(socket, &file, 0, 4 << 20).unwrap();
        assert!(sent > 0 && sent < 4 << 20, "{sent} bytes");
        assert_eq!(send_file(socket, &file, 0, 100), Some(0), "no room");
        let mut got = vec![0; sent];
        theirs.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|byte| *byte == 7));
        // SAFETY: the call takes only a descriptor and a number.
        let flags = unsafe { libc::fcntl(socket.fd, libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0);
    }

    #[test]
    fn what_cannot_be_sent_is_left_to_others() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (socket, file) = (socket(&ours), file(b"0123456789"));
        // The page of the last byte is cached, but the part extends beyond the end of the file.
        assert_eq!(send_file(socket, &file, 10, 5), None);
        file.std().set_len(1 << 20).unwrap();
        assert_eq!(send_file(socket, &file, 1 << 19, 5), None, "a hole");
        drop(theirs);
        assert_eq!(send_file(socket, &file, 0, 5), None, "a peer that is gone");
        assert!(send(socket, b"more").is_err());
    }
}

//! Faults of the output to which the server logs: writes to it fail, no process reads it, or its
//! reader has ended. Meanwhile clients cause thousands of log lines. The server survives all of
//! this.

use crate::support::{Client, PATIENCE, Server, command, free_ports};
use muster_codec::messages::ApiVersionsRequest;
use std::fs::File;
use std::io::{PipeReader, Read, Write, pipe};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: muster\r\n\r\n";
const TLS: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// The number of clients. Each causes a log line, unless the line is suppressed.
const STRANGERS: usize = 500;

/// The default capacity of a pipe.
const PIPE_BYTES: usize = 64 << 10;

/// A server whose standard output and error the test chooses.
struct Process(Child, u16);

impl Process {
    fn start(data: &Path, log: impl Into<Stdio>, errors: impl Into<Stdio>) -> Self {
        let port = free_ports(1);
        let mut command = command(data, port, 1, &[]);
        let process = command.stdout(log).stderr(errors).spawn().unwrap();
        let process = Self(process, port);
        let deadline = Instant::now() + PATIENCE;
        while Client::try_connect(port).is_none() {
            assert!(Instant::now() < deadline, "the server does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        process
    }

    /// Sends garbage on many connections, and checks that clients are served meanwhile.
    fn withstands_strangers(&mut self) {
        let mut client = Client::connect(self.1);
        for stranger in 0..STRANGERS {
            visit(self.1, &garbage(stranger));
            if stranger % 50 == 0 {
                client.call(3, software().into());
            }
        }
        client.call(3, software().into());
        assert_eq!(self.0.try_wait().unwrap(), None);
    }

    fn stop(mut self) -> ExitStatus {
        let id = self.0.id().to_string();
        assert!(std::process::Command::new("kill").arg(id).status().unwrap().success());
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn software() -> ApiVersionsRequest<'static> {
    let (name, version) = ("test".into(), "1".into());
    ApiVersionsRequest {
        client_software_name: name,
        client_software_version: version,
        ..Default::default()
    }
}

/// A frame length that is not valid. Each number causes another error message.
fn garbage(number: usize) -> [u8; 4] {
    (i32::MAX - number as i32).to_be_bytes()
}

/// Sends bytes that are not a request, and waits until the connection is closed.
fn visit(port: u16, bytes: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset also ends the connection.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty());
}

fn full_device() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A full pipe: it accepts no more bytes until it is read.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, mut writer) = pipe().unwrap();
    writer.write_all(&[b'.'; PIPE_BYTES]).unwrap();
    (reader, writer.into())
}

#[test]
fn a_log_on_a_full_disk_does_not_end_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::start(directory.path(), full_device(), full_device());
    server.withstands_strangers();
    assert!(server.stop().success());
}

#[test]
fn an_unread_log_does_not_stop_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let ((_unread, log), (_unread_errors, errors)) = (full_pipe(), full_pipe());
    let mut server = Process::start(directory.path(), log, errors);
    server.withstands_strangers();
    assert!(server.stop().success());
}

#[test]
fn a_log_whose_reader_is_gone_does_not_end_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let ((mut reader, log), (errors_reader, errors)) = (pipe().unwrap(), pipe().unwrap());
    let mut server = Process::start(directory.path(), log, errors);
    reader.read_exact(&mut [0; 1]).unwrap();
    drop((reader, errors_reader));
    server.withstands_strangers();
    assert!(server.stop().success());
}

#[test]
fn the_reason_of_a_failed_start_is_written_where_the_log_cannot_be() {
    let directory = tempfile::tempdir().unwrap();
    let (_unread, unread_log) = full_pipe();
    for log in [full_device().into(), unread_log] {
        let configs = ["no.such.key=1".to_owned()];
        let mut command = command(directory.path(), free_ports(1), 1, &configs);
        let output = command.stdout(log).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("no.such.key"), "{errors}");
    }
}

#[test]
fn excess_lines_of_one_client_are_left_out_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    (0..STRANGERS).for_each(|stranger| visit(server.port, &garbage(stranger)));
    server.says("more lines about connections were left out");
    assert!(server.lines_with("closed the connection of 127.0.0.1") < STRANGERS / 2);
}

#[test]
fn other_protocols_are_named_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), 1, &[]);
    for (bytes, name) in [(GET, "HTTP"), (TLS, "TLS")] {
        (0..20).for_each(|_| visit(server.port, bytes));
        server.says(&format!("this looks like {name}"));
    }
    // The server logs in order: if it had logged further lines about HTTP or TLS, they would come
    // before this one.
    visit(server.port, &garbage(0));
    server.says("is over socket.request.max.bytes");
    for name in ["HTTP", "TLS"] {
        assert_eq!(server.lines_with(&format!("this looks like {name}")), 1);
    }
}

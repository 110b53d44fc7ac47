//! HTTP requests to the admin listener.

use super::PATIENCE;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

/// Sends these bytes. Returns what the server answers until it closes the connection.
pub fn raw(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may answer before it has read all bytes.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// The status, the head and the body of the answer. `lines` are additional request headers.
pub fn get_with(port: u16, path: &str, lines: &str) -> (u16, String, String) {
    let answer = raw(port, format!("GET {path} HTTP/1.1\r\n{lines}\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), body.to_owned())
}

/// Like [`get_with`], for a client that accepts this media type.
pub fn get(port: u16, path: &str, accept: &str) -> (u16, String, String) {
    get_with(port, path, &format!("Host: localhost\r\nAccept: {accept}\r\n"))
}

/// The answer of the API to a client on this machine.
pub fn api(port: u16, path: &str) -> (u16, Value) {
    let (status, head, body) = get_with(port, &format!("/api/v1/{path}"), "Host: 127.0.0.1:1\r\n");
    assert!(head.contains("\r\nContent-Type: application/json\r\n"), "{head}");
    (status, serde_json::from_str(&body).unwrap())
}

/// Waits until the value of a metric satisfies `is_wanted`. Returns the first line that begins with
/// `beginning`.
pub fn metric_until(port: u16, beginning: &str, is_wanted: impl Fn(f64) -> bool) -> String {
    let began = Instant::now();
    loop {
        let (_, _, text) = get(port, "/metrics", "text/plain");
        let line = text.lines().find(|line| line.starts_with(beginning));
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse().unwrap();
        match line.filter(|line| is_wanted(value(line))) {
            Some(line) => return line.to_owned(),
            None => assert!(began.elapsed() < PATIENCE, "{beginning} is {line:?}"),
        }
    }
}

/// The answer of the API. Waits until it satisfies `is_wanted`.
pub fn api_until(port: u16, path: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let (status, answer) = api(port, path);
        if status == 200 && is_wanted(&answer) {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "{path} is still {status} {answer}");
    }
}

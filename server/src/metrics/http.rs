//! HTTP requests of the admin listener: GET, HEAD and POST without a body, one on each connection.

use httparse::{EMPTY_HEADER, Header, Status};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The maximum number of bytes, and of headers, in the head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

/// The time limits for receiving a request and for sending its answer.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// After its answer, a client may still send for this long, and this many bytes.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// The path without the query.
    pub(super) path: String,
    /// The query after the question mark; empty if there is no question mark.
    pub(super) query: String,
    /// The header `Host`; empty if it is missing.
    pub(super) host: String,
    /// The header `Authorization`; empty if it is missing.
    pub(super) authorization: String,
    /// Whether there is a header `Origin`. Then a browser sent the request for a web page.
    pub(super) has_origin: bool,
    pub(super) method: Method,
    /// The header `Accept`; empty if it is missing.
    pub(super) accept: String,
}

/// HTTP methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    /// Like GET, but the answer has no body.
    Head,
    /// A request that changes something.
    Post,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Malformed,
    Method,
    TooLate,
    HasBody,
    TooLarge,
    Version,
}

impl Refusal {
    fn status(self) -> Code {
        match self {
            Self::Malformed => Code(400, "Bad Request"),
            Self::Method => Code(405, "Method Not Allowed"),
            Self::TooLate => Code(408, "Request Timeout"),
            Self::HasBody => Code(413, "Content Too Large"),
            Self::TooLarge => Code(431, "Request Header Fields Too Large"),
            Self::Version => Code(505, "HTTP Version Not Supported"),
        }
    }
}

/// A status code and its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(pub(super) u16, pub(super) &'static str);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: Code,
    pub(super) content_type: &'static str,
    /// Further header lines, each with its line end.
    pub(super) headers: String,
    pub(super) body: String,
}

impl Response {
    pub(super) fn text(status: Code, body: String) -> Self {
        Self::new(status, "text/plain; charset=utf-8", body)
    }

    pub(super) fn new(status: Code, content_type: &'static str, body: String) -> Self {
        Self { status, content_type, headers: String::new(), body }
    }

    pub(super) fn refused(refusal: Refusal) -> Self {
        let status = refusal.status();
        Self::text(status, format!("{}\n", status.1))
    }

    fn head(&self) -> String {
        let Self { status: Code(code, words), content_type, headers, body } = self;
        let allow = if *code == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {code} {words}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
             {allow}{headers}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n\
             Connection: close\r\n\r\n",
            body.len()
        )
    }
}

/// Reads the request of a connection. Returns None if the client sent nothing, or if the connection
/// failed.
///
/// # Errors
/// The request is refused.
pub(super) fn read(stream: &TcpStream) -> Result<Option<Request>, Refusal> {
    let deadline = Instant::now() + REQUEST_PATIENCE;
    let mut head = Vec::new();
    loop {
        let mut piece = [0; 1 << 10];
        let read = read_until(stream, &mut piece, deadline);
        match read {
            Ok(0) => return if head.is_empty() { Ok(None) } else { Err(Refusal::Malformed) },
            Ok(bytes) => head.extend_from_slice(&piece[..bytes]),
            Err(error) if is_timeout(&error) && head.is_empty() => return Ok(None),
            Err(error) if is_timeout(&error) => return Err(Refusal::TooLate),
            Err(_) => return Ok(None),
        }
        if let Some(request) = parse(&head)? {
            return Ok(Some(request));
        }
        if head.len() >= HEAD_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
    }
}

/// Parses the head of a request; None if it is incomplete.
///
/// # Errors
/// The request is refused.
fn parse(bytes: &[u8]) -> Result<Option<Request>, Refusal> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Partial) => return Ok(None),
        Ok(Status::Complete(length)) if length > HEAD_BYTES_MAX => return Err(Refusal::TooLarge),
        Ok(Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooLarge),
        Err(httparse::Error::Version) => return Err(Refusal::Version),
        Err(_) => return Err(Refusal::Malformed),
    }
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST") => Method::Post,
        Some(_) => return Err(Refusal::Method),
        None => return Err(Refusal::Malformed),
    };
    check_headers(request.version, request.headers)?;
    let target = request.path.filter(|path| path.starts_with('/')).ok_or(Refusal::Malformed)?;
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name| Ok(values(request.headers, name).collect::<Result<Vec<_>, _>>()?.join(","));
    Ok(Some(Request {
        path: path.to_owned(),
        query: query.to_owned(),
        host: header("host")?,
        authorization: header("authorization")?,
        has_origin: values(request.headers, "origin").next().is_some(),
        method,
        accept: header("accept")?,
    }))
}

/// # Errors
/// The request has a body, several hosts, or in HTTP/1.1 no host.
fn check_headers(version: Option<u8>, headers: &[Header<'_>]) -> Result<(), Refusal> {
    let hosts = values(headers, "host").collect::<Result<Vec<_>, _>>()?.len();
    if hosts > 1 || (version == Some(1) && hosts == 0) {
        return Err(Refusal::Malformed);
    }
    let mut lengths = values(headers, "content-length");
    let has_length =
        lengths.try_fold(false, |has, length| Ok::<_, Refusal>(has || length?.trim() != "0"))?;
    if has_length || values(headers, "transfer-encoding").next().is_some() {
        return Err(Refusal::HasBody);
    }
    Ok(())
}

fn values<'h>(
    headers: &'h [Header<'_>],
    name: &'static str,
) -> impl Iterator<Item = Result<&'h str, Refusal>> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.map(|header| str::from_utf8(header.value).map_err(|_| Refusal::Malformed))
}

/// Sends an answer, and closes the sending side. Gives up if the client does not read.
///
/// # Errors
/// The answer could not be sent.
pub(super) fn write(stream: &TcpStream, response: &Response, is_head: bool) -> io::Result<()> {
    let deadline = Instant::now() + ANSWER_PATIENCE;
    write_until(stream, response.head().as_bytes(), deadline)?;
    if !is_head {
        write_until(stream, response.body.as_bytes(), deadline)?;
    }
    stream.shutdown(Shutdown::Write)
}

/// Reads what a client still sends. If a connection is closed with unread input, the kernel resets
/// it, and the client could lose the answer.
///
/// # Errors
/// The connection fails.
pub(super) fn linger(stream: &TcpStream) -> io::Result<()> {
    let (deadline, mut read) = (Instant::now() + LINGER, 0);
    while read < LINGER_BYTES_MAX {
        match read_until(stream, &mut [0; 1 << 10], deadline)? {
            0 => break,
            bytes => read += bytes,
        }
    }
    Ok(())
}

fn read_until(mut stream: &TcpStream, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
    stream.set_read_timeout(Some(left(deadline)?))?;
    stream.read(into)
}

fn write_until(mut stream: &TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<Request>, Refusal> {
        parse(text.as_bytes())
    }

    #[test]
    fn a_request_is_its_path_and_what_it_accepts() {
        let text =
            "GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nACCEPT: text/plain\r\nAccept: */*\r\n\r\n";
        let request = Request {
            path: "/metrics".to_owned(),
            query: "x=1".to_owned(),
            host: "a".to_owned(),
            authorization: String::new(),
            has_origin: false,
            method: Method::Get,
            accept: "text/plain,*/*".to_owned(),
        };
        assert_eq!(parsed(text), Ok(Some(request)));
        for end in 0..text.len() {
            assert_eq!(parsed(&text[..end]), Ok(None), "{end}");
        }
        let text = "HEAD / HTTP/1.0\r\nContent-Length: 0\r\n\r\nmore";
        let request = parsed(text).unwrap().unwrap();
        assert!(request.method == Method::Head && request.path == "/" && request.host.is_empty());
    }

    #[test]
    fn hostile_requests_are_refused() {
        let many = |count| "X: y\r\n".repeat(count);
        let cases = [
            ("PUT / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), Refusal::Method),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), Refusal::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(), Refusal::Malformed),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), Refusal::Malformed),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned(), Refusal::Version),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n".into(), Refusal::HasBody),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".into(),
                Refusal::HasBody,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\n"
                    .into(),
                Refusal::HasBody,
            ),
            ("GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n".to_owned(), Refusal::Malformed),
            ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n".to_owned(), Refusal::Malformed),
            (format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", many(70)), Refusal::TooLarge),
            ("\u{16}\u{3}\u{1}".to_owned(), Refusal::Malformed),
        ];
        for (text, refusal) in cases {
            assert_eq!(parsed(&text), Err(refusal), "{text:?}");
        }
        let value = [&b"GET / HTTP/1.1\r\nHost: a\r\nAccept: \xff\r\n\r\n"[..]].concat();
        assert_eq!(parse(&value), Err(Refusal::Malformed));
    }

    #[test]
    fn an_answer_says_its_length_and_closes() {
        let head = Response::refused(Refusal::Method).head();
        assert!(
            head.starts_with("HTTP/1.1 405 Method Not Allowed\r\n") && head.ends_with("\r\n\r\n")
        );
        for line in ["Content-Length: 19", "Allow: GET, HEAD", "Connection: close"] {
            assert!(head.contains(&format!("\r\n{line}\r\n")), "{head}");
        }
    }
}

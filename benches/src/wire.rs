//! Kafka frames and blocking calls, for everything outside the measured loop.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Length of the client id decides the length of every frame, so it is one for all modes.
pub(crate) const CLIENT_ID: &str = "muster-bench";

/// How long a call of the set-up may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const RESPONSE_BYTES_MAX: usize = 16 << 20;

/// A connection on which one call at a time is made.
pub(crate) struct Caller {
    stream: TcpStream,
    correlation_id: i32,
}

impl Caller {
    pub(crate) fn connect(address: impl ToSocketAddrs + fmt::Display) -> Result<Self> {
        let stream = TcpStream::connect(&address)
            .map_err(|error| format!("connect to {address}: {error}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(CALL_TIMEOUT))?;
        Ok(Self { stream, correlation_id: 0 })
    }

    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response> {
        self.correlation_id += 1;
        self.stream.write_all(&request_frame(self.correlation_id, version, request)?)?;
        let frame = self.receive()?;
        let mut body = frame.as_slice();
        let header = ResponseHeader::decode(&mut body, R::Response::header_version(version))?;
        if header.correlation_id != self.correlation_id {
            let (got, want) = (header.correlation_id, self.correlation_id);
            return Err(format!("answer with correlation id {got} instead of {want}").into());
        }
        let response = R::Response::decode(&mut body, version)?;
        match body.len() {
            0 => Ok(response),
            rest => Err(format!("{rest} bytes too many in an answer to key {}", R::KEY).into()),
        }
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    fn receive(&mut self) -> Result<Vec<u8>> {
        let mut prefix = [0; 4];
        self.stream.read_exact(&mut prefix)?;
        let length = u32::from_be_bytes(prefix) as usize;
        if length > RESPONSE_BYTES_MAX {
            return Err(format!("an answer of {length} bytes").into());
        }
        let mut frame = vec![0; length];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }
}

/// An error code of Kafka's in an answer.
#[derive(Debug)]
pub(crate) struct Refused {
    what: &'static str,
    code: i16,
}

impl Refused {
    /// Ok for code 0.
    pub(crate) fn check(what: &'static str, code: i16) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(Box::new(Self { what, code })) }
    }

    pub(crate) fn is(&self, error: ResponseError) -> bool {
        self.code == error.code()
    }

    pub(crate) fn is_retriable(&self) -> bool {
        ResponseError::try_from_code(self.code).is_some_and(|error| error.is_retriable())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, error_name(self.code))
    }
}

impl std::error::Error for Refused {}

pub(crate) fn error_name(code: i16) -> String {
    match ResponseError::try_from_code(code) {
        Some(error) => format!("{error:?} ({code})"),
        None => format!("error code {code}"),
    }
}

pub(crate) fn request_frame<R: Request>(
    correlation_id: i32,
    version: i16,
    request: &R,
) -> Result<Vec<u8>> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)));
    frame(&header, R::header_version(version), request, version)
}

pub(crate) fn response_frame<R: Encodable + HeaderVersion>(
    version: i16,
    response: &R,
) -> Result<Vec<u8>> {
    frame(&ResponseHeader::default(), R::header_version(version), response, version)
}

fn frame<H: Encodable, B: Encodable>(
    header: &H,
    header_version: i16,
    body: &B,
    version: i16,
) -> Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    header.encode(&mut frame, header_version)?;
    body.encode(&mut frame, version)?;
    let length = u32::try_from(frame.len() - 4)?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

//! A connection to a broker.

use muster_codec::header::{RequestHeader, read_response_header};
use muster_codec::wire::Reader;
use muster_codec::{Request, Response};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long a connection, and each read and write, may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest answer. Those about quorums have a few hundred bytes for each partition.
const ANSWER_BYTES_MAX: usize = 16 << 20;

pub(crate) struct Client {
    stream: TcpStream,
    address: String,
    calls: i32,
}

impl Client {
    /// # Errors
    /// No address of the name accepts the connection.
    pub(crate) fn connect(address: &str) -> Result<Self, String> {
        let failed = |why: String| format!("{address} cannot be reached: {why}");
        let addresses = address.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
        let mut why = "the name has no address".to_owned();
        for found in addresses {
            match TcpStream::connect_timeout(&found, TIMEOUT) {
                Ok(stream) => {
                    let set = stream.set_read_timeout(Some(TIMEOUT));
                    let set = set.and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
                    set.map_err(|error| failed(error.to_string()))?;
                    return Ok(Self { stream, address: address.to_owned(), calls: 0 });
                }
                Err(error) => why = error.to_string(),
            }
        }
        Err(failed(why))
    }

    /// Sends a request, and passes its answer on.
    ///
    /// # Errors
    /// The broker did not answer in time, or its answer cannot be read.
    pub(crate) fn call<T>(
        &mut self,
        version: i16,
        request: &Request<'_>,
        take: impl FnOnce(Response<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let api = request.api_key();
        let frame = self.frame(version, request)?;
        let answer = self.exchange(&frame).map_err(|error| {
            format!("{} does not answer as a broker on a PLAINTEXT listener: {error}", self.address)
        })?;
        let mut reader = Reader::new(&answer);
        let unreadable = |error| format!("the answer of {} cannot be read: {error}", self.address);
        let id = read_response_header(api, version, &mut reader).map_err(unreadable)?;
        if id != self.calls {
            return Err(format!("{} answered another request", self.address));
        }
        take(Response::read(api, version, &mut reader).map_err(unreadable)?)
    }

    fn frame(&mut self, version: i16, request: &Request<'_>) -> Result<Vec<u8>, String> {
        self.calls += 1;
        let header = RequestHeader {
            api_key: request.api_key() as i16,
            api_version: version,
            correlation_id: self.calls,
            client_id: Some("muster-cluster".into()),
        };
        let mut frame = vec![0; 4];
        header.write(&mut frame);
        request.write(version, &mut frame).map_err(|error| error.to_string())?;
        let length = u32::try_from(frame.len() - 4).map_err(|error| error.to_string())?;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        Ok(frame)
    }

    fn exchange(&mut self, frame: &[u8]) -> std::io::Result<Vec<u8>> {
        self.stream.write_all(frame)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > ANSWER_BYTES_MAX {
            return Err(std::io::Error::other("it sends something else"));
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        Ok(answer)
    }
}

//! A request with the channel for its answer.

use std::io;
use std::marker::PhantomData;
use std::sync::mpsc::Sender;

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request};

/// A request whose body is not decoded yet.
pub(super) struct Call {
    pub(super) api: ApiKey,
    pub(super) version: i16,
    correlation: i32,
    body: Bytes,
}

impl Call {
    pub(super) fn read(frame: Vec<u8>) -> Option<Self> {
        let api = ApiKey::try_from(i16::from_be_bytes(frame.get(..2)?.try_into().ok()?)).ok()?;
        let version = i16::from_be_bytes(frame.get(2..4)?.try_into().ok()?);
        let mut body = Bytes::from(frame);
        let header = RequestHeader::decode(&mut body, api.request_header_version(version)).ok()?;
        Some(Self { api, version, correlation: header.correlation_id, body })
    }

    pub(super) fn parse<R: Request>(mut self, to: Sender<Vec<u8>>) -> io::Result<(R, Reply<R>)> {
        let request = R::decode(&mut self.body, self.version).map_err(io::Error::other)?;
        Ok((request, self.reply(to)))
    }

    pub(super) fn reply<R: Request>(&self, to: Sender<Vec<u8>>) -> Reply<R> {
        let (version, correlation) = (self.version, self.correlation);
        Reply { version, correlation, to, of: PhantomData }
    }
}

/// Answers one request, now or later. If it is dropped, the connection closes.
pub(super) struct Reply<R> {
    pub(super) version: i16,
    correlation: i32,
    to: Sender<Vec<u8>>,
    of: PhantomData<R>,
}

impl<R: Request> Reply<R> {
    pub(super) fn send(self, response: R::Response) {
        let version = self.version;
        self.send_as(version, response);
    }

    /// Sends the answer in another version than that of the request: ApiVersions answers an unknown
    /// version in version 0.
    pub(super) fn send_as(self, version: i16, response: R::Response) {
        let mut frame = Vec::new();
        let header = ResponseHeader::default().with_correlation_id(self.correlation);
        header.encode(&mut frame, R::Response::header_version(version)).unwrap();
        response.encode(&mut frame, version).unwrap();
        // Fails if the connection is closed.
        let _ = self.to.send(frame);
    }
}

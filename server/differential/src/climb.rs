//! Raises the epoch of a transactional id, by one with each InitProducerId, until it is near the
//! greatest epoch. With the InitProducerId after that epoch, the producer id changes.

use crate::wire::{Answer, Ask, Flaw};
use muster_codec::messages::InitProducerIdRequest;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The number of requests that are sent before the first of them is answered.
const AT_A_TIME: i64 = 200;

/// Raises the epoch of a transactional id to `epoch`.
///
/// # Errors
/// The server refuses a request, or cannot be reached.
pub fn climb(address: &str, transactional_id: &str, epoch: i64) -> io::Result<()> {
    let request = InitProducerIdRequest {
        transactional_id: Some(transactional_id.to_owned().into()),
        transaction_timeout_ms: 600_000,
        ..Default::default()
    };
    let ask = Ask { version: 1, request: request.into(), flaw: Flaw::None };
    let frame = ask.frame()?;
    let mut stream = TcpStream::connect(address)?;
    let mut reached = -1;
    while reached < epoch {
        let count = AT_A_TIME.min(epoch - reached);
        stream.write_all(&frame.repeat(count as usize))?;
        for _ in 0..count {
            reached = initialized(&mut stream, &ask)?;
        }
    }
    Ok(())
}

/// The epoch in the next answer.
fn initialized(stream: &mut TcpStream, ask: &Ask) -> io::Result<i64> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    let Answer::Body(body) = ask.read(Some(&frame)) else {
        return Err(io::Error::other("InitProducerId is not answered"));
    };
    let answer = &body["InitProducerId"];
    let epoch = answer["producerEpoch"].as_i64().filter(|_| answer["errorCode"] == 0);
    epoch.ok_or_else(|| io::Error::other(format!("InitProducerId: {answer}")))
}
